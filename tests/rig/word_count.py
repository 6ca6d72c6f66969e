"""Kafka Streams' word count as a process, lines for it to count, and a reader that counts along."""

import random
import shutil
import subprocess
import threading
from collections import Counter
from pathlib import Path

import confluent_kafka
from confluent_kafka import TopicPartition

from rig.apache_kafka.java import compiled, java_command
from rig.clients.confluent import QUIET
from rig.source_tree import ROOT
from rig.transactional.interface import PATIENCE_SECONDS, await_that

SOURCE = ROOT / "examples" / "streams_word_count" / "WordCount.java"
MAIN = "WordCount"
LINES, COUNTS = "lines", "counts"
PARTITIONS = 2
WORDS = ("hope", "is", "the", "thing", "with", "feathers")
PAUSE_SECONDS = 0.005
# So that those who come after a kill need not wait long for what it left behind.
IMPATIENT = {
    "session.timeout.ms": "2000",
    "heartbeat.interval.ms": "300",
    "producer.transaction.timeout.ms": "2000",
}


class WordCount:
    """One instance after the other; none finds the state of its predecessor."""

    def __init__(self, *, jars: Path, folder: Path, bootstrap: str) -> None:
        self._state = folder / "state"
        classes = compiled([SOURCE], jars=jars, folder=folder)
        java = java_command(jars, heap_mib=128, folder=folder, classes=classes)
        self._command = [*java, MAIN, bootstrap, LINES, COUNTS, str(self._state)]
        self._command += [f"{name}={value}" for name, value in IMPATIENT.items()]
        self._log = folder / "word-count.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        assert self._process is None
        with open(self._log, "ab") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def revive(self) -> bool:
        """Whether it had ended by itself; then it is started again on its state, as a supervisor
        does.
        """
        assert self._process is not None
        if self._process.poll() is None:
            return False
        self._process = None
        self.start()
        return True

    def kill(self) -> None:
        """By SIGKILL, and its state is lost."""
        process, self._process = self._process, None
        assert process is not None
        ended_by_itself = process.poll() is not None
        process.kill()
        process.wait()
        shutil.rmtree(self._state, ignore_errors=True)  # it may not have got that far
        assert not ended_by_itself

    def end(self) -> None:
        """By SIGKILL, whether it still runs or not."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def close(self) -> None:
        """What it said is seen when a test fails."""
        print(self._log.read_text("utf-8", "replace")[-4000:])
        if self._process is not None:
            self.kill()


class Lines:
    """Somebody who talks on and on, from a thread."""

    def __init__(self, bootstrap: str, *, pause_seconds: float = PAUSE_SECONDS) -> None:
        self.said: Counter[str] = Counter()
        self._pause_seconds = pause_seconds
        self._producer = confluent_kafka.Producer(
            {"bootstrap.servers": bootstrap, "log_level": QUIET, "enable.idempotence": True}
        )
        self._enough = threading.Event()
        self._speaker = threading.Thread(target=self._talk)
        self._speaker.start()

    def close(self) -> None:
        """Returns when everything said has been written."""
        self._enough.set()
        self._speaker.join()

    def _talk(self) -> None:
        chance = random.Random(0)
        while not self._enough.wait(self._pause_seconds):
            words = chance.choices(WORDS, k=3)
            self.said.update(words)
            self._producer.produce(LINES, " ".join(words))
            self._producer.poll(0)
        assert self._producer.flush(PATIENCE_SECONDS) == 0


class Counts:
    """What a reader of committed counts has seen, each count in its turn."""

    def __init__(self, bootstrap: str) -> None:
        self.read = 0
        self.repeated = 0  # counts that were told before
        self.skipped = 0  # counts before which one is missing
        self.seen: Counter[str] = Counter()
        self.wrong: list[str] = []
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "log_level": QUIET,
                "group.id": "none",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
            }
        )
        self._consumer.assign([TopicPartition(COUNTS, index, 0) for index in range(PARTITIONS)])

    def await_more(self, count: int) -> None:
        wanted = self.seen.total() + count
        await_that(lambda: self.look().total() >= wanted, f"{count} more counts")

    def await_all(self, said: Counter[str]) -> None:
        await_that(lambda: self.look() == said, "every word is counted")

    def close(self) -> None:
        self._consumer.close()

    def look(self) -> Counter[str]:
        """The last count of each word, as of now."""
        for message in self._consumer.consume(1000, 0.1):
            assert message.error() is None, message.error()
            word, count = (message.key() or b"").decode(), int(message.value() or b"0")
            self.read += 1
            self.repeated += count <= self.seen[word]
            self.skipped += count > self.seen[word] + 1
            if count != self.seen[word] + 1:
                self.wrong.append(f"{word} {count} after {self.seen[word]}")
            self.seen[word] = count
        return self.seen
