"""The kinds of consumers that groups are tested with: a client library and an assignor."""

from dataclasses import dataclass, field

from rig.members.member import python_member

JAVA_ASSIGNORS = {
    "range": "org.apache.kafka.clients.consumer.RangeAssignor",
    "cooperative-sticky": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """How to start a consumer, and what makes it the kind that it is."""

    command: list[str]
    settings: dict[str, str] = field(default_factory=dict)


def python_kind(program: str, assignor: str) -> Kind:
    return Kind(
        command=python_member(program), settings={"partition_assignment_strategy": assignor}
    )


def java_kind(assignor: str, *, command: list[str]) -> Kind:
    return Kind(
        command=command, settings={"partition_assignment_strategy": JAVA_ASSIGNORS[assignor]}
    )
