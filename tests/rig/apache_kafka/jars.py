"""Apache Kafka's jars, fetched once by Maven and kept in the user's cache.

Nothing of Kafka is in this repository. What fetches them raises `PeerMissing` with the reason that
a skipped test then states.
"""

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

from rig.source_tree import ROOT

VERSION = "4.3.1"
LOG4J_VERSION = "2.25.4"
FETCH_SECONDS_MAX = 240
STREAMS_PROJECT = ROOT / "examples" / "streams_word_count" / "pom.xml"

Artifact = tuple[str, str, str]  # group, name and version

LOGGING: tuple[Artifact, ...] = (
    ("org.apache.logging.log4j", "log4j-slf4j-impl", LOG4J_VERSION),
    ("org.apache.logging.log4j", "log4j-core", LOG4J_VERSION),
)
ARTIFACTS: tuple[Artifact, ...] = (
    ("org.apache.kafka", "kafka_2.13", VERSION),
    ("org.apache.kafka", "kafka-server", VERSION),
    ("org.apache.kafka", "kafka-tools", VERSION),
    *LOGGING,
)
SHELL_ARTIFACTS: tuple[Artifact, ...] = (("org.apache.kafka", "kafka-shell", VERSION), *LOGGING)


class PeerMissing(Exception):
    """Apache Kafka cannot run here, and why."""


def fetched_jars() -> Path:
    """The folder that holds the broker, the client and the tools."""
    return fetched(f"kafka-{VERSION}", project(ARTIFACTS))


def fetched_shell_jars() -> Path:
    """The folder that holds the metadata shell."""
    return fetched(f"kafka-shell-{VERSION}", project(SHELL_ARTIFACTS))


def fetched_client_jars(release: str) -> Path:
    """The folder that holds the client of one release, and nothing else of Kafka."""
    client = ("org.apache.kafka", "kafka-clients", release)
    return fetched(f"kafka-clients-{release}", project([client]))


def fetched_streams_jars() -> Path:
    """The folder that holds Kafka Streams, as its example wants it."""
    return fetched(f"kafka-streams-{VERSION}", STREAMS_PROJECT.read_text(encoding="utf-8"))


def fetched(name: str, wanted: str) -> Path:
    """The folder of what a project wants; fetches it the first time, one process at a time."""
    for program in ("java", "javac", "mvn"):
        if shutil.which(program) is None:
            raise PeerMissing(f"{program} is not installed")
    home = cache_home() / name
    home.parent.mkdir(parents=True, exist_ok=True)
    with open(home.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not home.is_dir():
            fetch_into(home, wanted)
    return home


def cache_home() -> Path:
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "penstock-tests"


def fetch_into(home: Path, wanted: str) -> None:
    """All jars or none: they are copied beside `home`, which appears by one rename."""
    with tempfile.TemporaryDirectory(dir=home.parent) as folder:
        pom, jars = Path(folder) / "pom.xml", Path(folder) / "jars"
        pom.write_text(wanted, encoding="utf-8")
        command = [
            "mvn",
            "--batch-mode",
            "--quiet",
            f"--file={pom}",
            "dependency:copy-dependencies",
            "-DincludeScope=runtime",
            f"-DoutputDirectory={jars}",
        ]
        try:
            outcome = subprocess.run(
                command, capture_output=True, text=True, timeout=FETCH_SECONDS_MAX
            )
        except subprocess.TimeoutExpired:
            raise PeerMissing(
                f"Maven did not fetch {home.name} within {FETCH_SECONDS_MAX} s"
            ) from None
        if outcome.returncode != 0:
            reason = (outcome.stdout + outcome.stderr).strip().splitlines()[:1]
            raise PeerMissing(f"Maven cannot fetch {home.name}: {reason}")
        jars.rename(home)


def project(artifacts: Iterable[Artifact]) -> str:
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
        f"<version>{version}</version></dependency>"
        for group, artifact, version in artifacts
    )
    return (
        "<project><modelVersion>4.0.0</modelVersion><groupId>penstock.tests</groupId>"
        "<artifactId>apache-kafka</artifactId><version>1</version><packaging>pom</packaging>"
        f"<dependencies>{dependencies}</dependencies></project>"
    )
