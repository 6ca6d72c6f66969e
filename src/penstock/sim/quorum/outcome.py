"""What one seed of the quorum has come to."""

from dataclasses import dataclass, field


@dataclass(slots=True, kw_only=True)
class Figures:
    """What happened in a run."""

    steps: int = 0
    virtual_ms: int = 0
    faults: dict[str, int] = field(default_factory=dict)  # by kind
    leaders: int = 0
    acked: int = 0
    snapshots_installed: int = 0
    voter_changes: int = 0  # sets of voters that were committed
    calm_leader_ms: int = 0  # of calm, until there was the leader whose records all have in the end


@dataclass(slots=True, kw_only=True)
class Outcome:
    seed: int
    violation: str | None
    figures: Figures
    lines: list[str]
