"""What was asked of topics and what was acknowledged, and whether a cluster shows the same.

An operation that was refused in a way that leaves its outcome open (the connection broke, the time
was over, the controller was deposed) may have been done once, or not at all.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum


class Deletion(Enum):
    NOT_ASKED = "not asked for"
    OPEN = "outcome unknown"
    DONE = "acknowledged"


@dataclass(slots=True, kw_only=True)
class LedgerEntry:
    """One topic; its name is asked for once only."""

    name: str
    is_acked: bool = False  # its creation, or that it exists
    topic_id: bytes | None = None  # that was acknowledged
    value: int | None = None  # of its setting, as acknowledged last
    open_values: set[int] = field(default_factory=set)  # asked for since, outcome unknown
    deletion: Deletion = Deletion.NOT_ASKED


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundTopic:
    """As one node shows it."""

    topic_id: bytes
    value: int | None


def differences(
    entries: Iterable[LedgerEntry], found: Mapping[str, FoundTopic], *, where: str
) -> list[str]:
    """Whatever was acknowledged and is not so, and what nobody has asked for."""
    known = {entry.name: entry for entry in entries}
    faults = [
        f"{where}: {fault}"
        for name, entry in known.items()
        for fault in _faults(entry, found.get(name))
    ]
    faults += [f"{where}: {name}: nobody created it" for name in found if name not in known]
    return faults


def _faults(entry: LedgerEntry, found: FoundTopic | None) -> Iterator[str]:
    if found is None:
        if entry.is_acked and entry.deletion is Deletion.NOT_ASKED:
            yield f"{entry.name}: created, and not there"
        return
    if entry.deletion is Deletion.DONE:
        yield f"{entry.name}: deleted, and still there"
    if entry.topic_id is not None and entry.topic_id != found.topic_id:
        yield f"{entry.name}: created as {entry.topic_id.hex()}, is {found.topic_id.hex()}"
    if found.value != entry.value and found.value not in entry.open_values:
        yield f"{entry.name}: set to {entry.value}, is {found.value}"
