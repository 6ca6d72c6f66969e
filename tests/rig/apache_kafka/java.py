"""How a JVM is started for a test: small, quick to start, and quiet."""

import tempfile
from pathlib import Path

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


def java_command(jars: Path, *, heap_mib: int, folder: Path, log_level: str = "WARN") -> list[str]:
    """The command up to the main class; `folder` takes the logging set-up."""
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
        "-cp",
        f"{jars}/*",
    ]


def scratch_folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="penstock-peer-")
