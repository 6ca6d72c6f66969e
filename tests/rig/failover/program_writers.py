"""Writers of clients in other languages: each a program that writes one record at a time.

    PROGRAM BOOTSTRAP TOPIC PARTITION

It prints a line for each record that was acked or given up: when it was begun and when it ended, in
microseconds since 1970, and the error or "-". It ends with its standard input.
"""

import hashlib
import os
import shutil
import subprocess
import time
from pathlib import Path

from rig.apache_kafka.java import compiled, java_command
from rig.failover.writers import NOBODY, Writer, Written

RIG = Path(__file__).resolve().parents[1]
JAVA_SOURCE = RIG / "java" / "OneByOneWriter.java"
GO_SOURCE = RIG / "go" / "one_by_one"
BUILD_SECONDS_MAX = 600
END_SECONDS_MAX = 20.0
MICROSECONDS = 1_000_000


class ProgramWriter(Writer):
    def __init__(
        self, name: str, command: list[str], bootstrap: str, topic: str, partition: int
    ) -> None:
        super().__init__()
        self.name = name
        self._process = subprocess.Popen(
            [*command, bootstrap, topic, str(partition)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._since_1970 = time.time() - time.monotonic()

    def end(self) -> None:
        super().end()
        assert self._process.stdin is not None
        self._process.stdin.close()

    def close(self) -> None:
        try:
            self._process.wait(END_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _run(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            begun, ended, error = line.rstrip("\n").split(" ", 2)
            self._note(
                Written(
                    int(begun) / MICROSECONDS - self._since_1970,
                    int(ended) / MICROSECONDS - self._since_1970,
                    NOBODY,
                    None if error == "-" else error,
                )
            )


def java_writer(*, jars: Path, folder: Path) -> list[str]:
    """The command of the Java client, which is compiled into the folder."""
    classes = compiled([JAVA_SOURCE], jars=jars, folder=folder)
    return [
        *java_command(jars, heap_mib=128, folder=folder, classes=classes, log_level="OFF"),
        JAVA_SOURCE.stem,
    ]


def franz_go_writer() -> list[str] | str:
    """The command of franz-go, built when its source has changed; or why there is none."""
    go = shutil.which("go")
    if go is None:
        return "franz-go needs Go: `go` is not on the PATH"
    digest = hashlib.sha256()
    for file in sorted(GO_SOURCE.iterdir()):
        digest.update(file.read_bytes())
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    program = Path(root) / "penstock-tests" / f"franz-go-{digest.hexdigest()[:16]}"
    if not program.exists():
        program.parent.mkdir(parents=True, exist_ok=True)
        try:
            built = subprocess.run(
                [go, "build", "-o", str(program), "."],
                cwd=GO_SOURCE,
                capture_output=True,
                text=True,
                timeout=BUILD_SECONDS_MAX,
            )
        except subprocess.TimeoutExpired:
            return f"franz-go could not be fetched and built within {BUILD_SECONDS_MAX} s"
        if built.returncode:
            return f"franz-go cannot be built: {built.stderr.strip().splitlines()[-1]}"
    return [str(program)]
