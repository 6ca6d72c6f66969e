"""How a JVM is started for a test: small, quick to start, and quiet."""

import os
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

COMPILE_SECONDS_MAX = 240

QUIET_LOGGING = """\
status = error
appender.err.type = Console
appender.err.name = ERR
appender.err.target = SYSTEM_ERR
appender.err.layout.type = PatternLayout
appender.err.layout.pattern = %d %p %m (%c)%n
rootLogger.level = ${sys:test.log.level:-WARN}
rootLogger.appenderRef.err.ref = ERR
"""


def java_command(
    jars: Path,
    *,
    heap_mib: int,
    folder: Path,
    classes: Path | None = None,
    log_level: str = "WARN",
    properties: Mapping[str, str] | None = None,
) -> list[str]:
    """The command up to the main class; `folder` takes the logging set-up. `properties` are those
    of the process.
    """
    logging = folder / "log4j2.properties"
    logging.write_text(QUIET_LOGGING, encoding="utf-8")
    return [
        "java",
        f"-Xmx{heap_mib}m",
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        "-Xshare:auto",
        f"-Dtest.log.level={log_level}",
        f"-Dlog4j2.configurationFile={logging}",
        *(f"-D{name}={value}" for name, value in (properties or {}).items()),
        "-cp",
        f"{jars}/*" if classes is None else f"{jars}/*{os.pathsep}{classes}",
    ]


def compiled(sources: Iterable[Path], *, jars: Path, folder: Path) -> Path:
    """The folder of the classes, within `folder`."""
    classes = folder / "classes"
    command = ["javac", "-cp", f"{jars}/*", "-d", str(classes), *map(str, sources)]
    subprocess.run(command, check=True, timeout=COMPILE_SECONDS_MAX)
    return classes


def scratch_folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="penstock-peer-")
