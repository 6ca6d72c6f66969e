"""Kafka Streams counts words exactly once, though it is killed and its state is lost.

    lines ─▶ WordCount.java ─▶ counts        hope 1, hope 2, hope 3, ...
                  ▲
                  └ killed in the midst of it, its state directory deleted, started again

The program is `streams_word_count/WordCount.java`: nothing but Kafka Streams and
`processing.guarantee=exactly_once_v2`. This script feeds it, kills it, and checks what came out.
It needs Java 17; Maven fetches Kafka Streams into `streams_word_count/target`, unless STREAMS_JARS
names a folder that holds it. Run it: `python examples/streams_word_count.py`.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Producer

from shop import Shop, opened, say, seen_with_keys, wait_until

HOME = Path(__file__).resolve().with_name("streams_word_count")
LINE = "Hope is the thing with feathers, that perches in the soul"
LINES = 100
# What a killed instance has left behind is waited for: its place in the group, its transaction.
IMPATIENT = ("session.timeout.ms=6000", "producer.transaction.timeout.ms=5000")


def main() -> None:
    with opened(__doc__) as shop, tempfile.TemporaryDirectory() as folder:
        lines, counts = shop.topic("lines", partitions=2), shop.topic("counts", partitions=2)
        jars, state = streams_jars(), Path(folder) / "state"
        with running(shop, jars, lines, counts, state):
            say_lines(shop, lines)
            await_counts(shop, counts, "the", LINES // 2)
        shutil.rmtree(state)
        say("killed, and its state deleted")
        with running(shop, jars, lines, counts, state):
            say_lines(shop, lines)
            await_counts(shop, counts, "the", 4 * LINES)
        told = [int(count) for word, count in seen_with_keys(shop, counts) if word == "the"]
        assert told == list(range(1, 4 * LINES + 1))
        say(f"ok: 'the' was said {4 * LINES} times, and each count from 1 on was told once")


def streams_jars() -> Path:
    given = os.environ.get("STREAMS_JARS")
    if given:
        return Path(given)
    jars = HOME / "target" / "jars"
    if not jars.is_dir():
        say("Maven fetches Kafka Streams")
        fetch = ["mvn", "--batch-mode", "--quiet", f"--file={HOME / 'pom.xml'}"]
        fetch += ["dependency:copy-dependencies", "-DincludeScope=runtime"]
        subprocess.run([*fetch, f"-DoutputDirectory={jars}"], check=True)
    return jars


@contextmanager
def running(shop: Shop, jars: Path, lines: str, counts: str, state: Path) -> Iterator[None]:
    """The word count, until it is killed."""
    command = ["java", "-cp", f"{jars}/*", str(HOME / "WordCount.java")]
    command += [shop.bootstrap, lines, counts, str(state), *IMPATIENT]
    process = subprocess.Popen([*command, f"application.id=word-count-{shop.mark}"])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def say_lines(shop: Shop, topic: str) -> None:
    producer = Producer({"bootstrap.servers": shop.bootstrap})
    for _ in range(LINES):
        producer.produce(topic, LINE)
    producer.flush()


def await_counts(shop: Shop, topic: str, word: str, least: int) -> None:
    def counted() -> bool:
        return sum(key == word for key, _ in seen_with_keys(shop, topic)) >= least

    wait_until(counted, f"{least} counts of {word!r}")


if __name__ == "__main__":
    main()
