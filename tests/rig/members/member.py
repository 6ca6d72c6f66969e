"""One consumer in a process of its own, and a group of them."""

import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

TESTS = Path(__file__).resolve().parents[2]
PATIENCE_SECONDS = 120.0

Position = tuple[int, int]  # partition, offset


class GroupMember:
    """What it owns and what it read, as it told. Its program polls, tells and commits in turn."""

    def __init__(
        self, command: list[str], settings: Mapping[str, str], *, news: threading.Condition
    ) -> None:
        self.owned: frozenset[int] = frozenset()
        self.read: list[Position] = []
        self.changes = 0  # how often what it owns became something else
        self.errors: list[str] = []
        self._news = news
        self._process = subprocess.Popen(
            [*command, json.dumps(settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "PYTHONPATH": str(TESTS)},
        )
        self._reader = threading.Thread(target=self._listen, daemon=True)
        self._reader.start()

    def stall(self) -> None:
        """It stops polling; its heartbeats go on, as those of a consumer that is busy."""
        self._tell("stall")

    def resume(self) -> None:
        self._tell("resume")

    def leave(self) -> None:
        """It closes as a service that is stopped; returns when the process has ended."""
        self.begin_to_leave()
        self.await_left()

    def begin_to_leave(self) -> None:
        self._tell("close")

    def await_left(self) -> None:
        assert self._process.wait(PATIENCE_SECONDS) == 0, self.errors
        self._end()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._end()

    @property
    def runs(self) -> bool:
        return self._process.poll() is None

    def _tell(self, word: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(word + "\n")
        self._process.stdin.flush()

    def _end(self) -> None:
        self._reader.join(PATIENCE_SECONDS)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        with self._news:
            self.owned = frozenset()
            self._news.notify_all()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            told = json.loads(line)
            with self._news:
                if "owned" in told:
                    before, self.owned = self.owned, frozenset(told["owned"])
                    self.changes += self.owned != before
                self.read += [(partition, offset) for partition, offset in told.get("read", ())]
                if "error" in told:
                    self.errors.append(told["error"])
                self._news.notify_all()


class GroupOfMembers:
    """Members of one group on one topic; `settings` are Kafka's, in the words of Java."""

    def __init__(self, *, bootstrap: str, topic: str, partitions: int, group: str) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self.name = group
        self._news = threading.Condition()
        self.partitions = frozenset(range(partitions))
        self.members: list[GroupMember] = []

    def start(self, command: list[str], **settings: str) -> GroupMember:
        """Settings by Kafka's names, with underscores for dots."""
        told = {
            "bootstrap.servers": self._bootstrap,
            "group.id": self.name,
            "topic": self._topic,
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
        member = GroupMember(command, told, news=self._news)
        self.members.append(member)
        return member

    def await_shared_by(
        self, *members: GroupMember, idle: int = 0, within_seconds: float = PATIENCE_SECONDS
    ) -> None:
        """Until these own every partition, none twice, all but `idle` of them at least one."""

        def is_shared() -> bool:
            owned = [member.owned for member in members]
            return (
                frozenset().union(*owned) == self.partitions
                and sum(map(len, owned)) == len(self.partitions)
                and sum(not part for part in owned) == idle
            )

        self.await_that(is_shared, "the partitions are shared", within_seconds=within_seconds)

    def await_read(self, positions: Iterable[Position]) -> None:
        wanted = set(positions)
        self.await_that(lambda: wanted <= self.read().keys(), "everything is read")

    def read(self) -> Counter[Position]:
        """How often each record was read, by all members together."""
        return Counter(position for member in self.members for position in member.read)

    def await_that(
        self, is_so: Callable[[], bool], what: str, *, within_seconds: float = PATIENCE_SECONDS
    ) -> None:
        deadline = time.monotonic() + within_seconds
        with self._news:
            while not is_so():
                left = deadline - time.monotonic()
                if left <= 0 or not self._news.wait(left):
                    raise AssertionError(f"not so: {what}: {self._told()}")

    def end(self) -> None:
        for member in self.members:
            if member.runs:
                member.kill()

    def _told(self) -> list[object]:
        return [
            {"owned": sorted(member.owned), "read": len(member.read), "errors": member.errors}
            for member in self.members
        ]


def python_member(program: str) -> list[str]:
    return [sys.executable, "-m", f"rig.members.{program}"]
