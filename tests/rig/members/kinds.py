"""The kinds of consumers that groups are tested with: a client library and an assignor."""

import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from rig.apache_kafka.java import java_command
from rig.members.member import python_member

JAVA_SOURCE = Path(__file__).resolve().parents[1] / "java" / "GroupMember.java"
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


def java_kind(assignor: str, *, classes: Path, jars: Path) -> Kind:
    command = java_command(jars, heap_mib=64, folder=classes)
    command[-1] += f":{classes}"
    return Kind(
        command=[*command, "GroupMember"],
        settings={"partition_assignment_strategy": JAVA_ASSIGNORS[assignor]},
    )


def compile_java_member(*, jars: Path, folder: Path) -> Path:
    """The folder of the classes."""
    command = ["javac", "-cp", f"{jars}/*", "-d", str(folder), str(JAVA_SOURCE)]
    subprocess.run(command, check=True, timeout=120)
    return folder
