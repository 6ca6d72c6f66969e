"""The member of the Java client: compiled once, its classes in an archive that all JVMs share.

Most of what such a member costs is its start, and with the archive that is less than half.
"""

import subprocess
from pathlib import Path

from rig.apache_kafka.java import COMPILE_SECONDS_MAX, compiled
from rig.clients.confluent import ConfluentClient
from rig.clients.interface import Message
from rig.members.member import GroupOfMembers

SOURCE = Path(__file__).resolve().parents[1] / "java" / "GroupMember.java"
MAIN = "GroupMember"
JARS = ("jackson-annotations", "jackson-core", "jackson-databind", "kafka-clients", "slf4j-api")
REHEARSAL = "rehearsal-of-java"


def java_member(*, jars: Path, folder: Path, bootstrap: str) -> list[str]:
    """The command of a member; makes what it needs in `folder`, by a first one at this broker."""
    program, archive = folder / "member.jar", folder / "member.jsa"
    _compile(program, jars=jars, folder=folder)
    used = [path for path in sorted(jars.iterdir()) if path.name.startswith(JARS)]
    java = ["java", "-Xmx64m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xlog:disable"]
    what = ["-cp", ":".join(map(str, [*used, program])), MAIN]
    _rehearse([*java, f"-XX:ArchiveClassesAtExit={archive}", *what], bootstrap=bootstrap)
    return [*java, "-Xshare:auto", f"-XX:SharedArchiveFile={archive}", *what]


def _compile(program: Path, *, jars: Path, folder: Path) -> None:
    classes = compiled([SOURCE], jars=jars, folder=folder)
    command = ["jar", "--create", "--file", str(program), "-C", str(classes), "."]
    subprocess.run(command, check=True, timeout=COMPILE_SECONDS_MAX)


def _rehearse(command: list[str], *, bootstrap: str) -> None:
    """Joins, reads a record, commits and leaves: the classes that it took are archived."""
    admin = ConfluentClient(bootstrap)
    admin.create_topic(REHEARSAL, partitions=1)
    admin.produce(REHEARSAL, [Message(value=b"x", partition=0)])
    admin.close()
    group = GroupOfMembers(bootstrap=bootstrap, topic=REHEARSAL, partitions=1, group=REHEARSAL)
    member = group.start(command, group_protocol="consumer")
    group.await_read([(0, 0)])
    member.leave()
