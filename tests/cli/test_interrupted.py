"""Ctrl-C says what was written, in one line, and nothing that was acked is lost."""

import asyncio
import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer, TopicPartition

from penstock.cli.connect import until_interrupted
from penstock.testing import Broker


def started(command: str, broker: Broker) -> subprocess.Popen[bytes]:
    """A process that hears Ctrl-C, though this one may have been started in the background of a
    shell, where it is ignored: what is ignored here is ignored there too.
    """
    words = [*command.split(), "--bootstrap", broker.bootstrap]
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return subprocess.Popen(
            [sys.executable, "-m", "penstock.cli.main", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    finally:
        signal.signal(signal.SIGINT, before)


def interrupt_after(
    count: int, process: subprocess.Popen[bytes], broker: Broker, topic: str
) -> str:
    """Waits until so many records are in the topic; what was printed, and nothing else."""
    # By default this client sees no further than open transactions.
    rules = {"group.id": "watching", "isolation.level": "read_uncommitted"}
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, **rules})
    for _ in itertools.takewhile(lambda _: end_of(topic, consumer) < count, itertools.count()):
        assert process.poll() is None
    consumer.close()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130
    return (out + err).decode()


def end_of(topic: str, consumer: Consumer) -> int:
    _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=60)
    return int(end)


def test_produce_says_how_many_records_it_wrote(penstock: Broker) -> None:
    topic = penstock.topic()
    process = started(f"produce {topic}", penstock)
    assert process.stdin is not None
    process.stdin.write(b"a\nb\nc\n")
    process.stdin.flush()
    printed = interrupt_after(3, process, penstock, topic)
    assert printed == f"penstock: interrupted: produced 3 records to {topic}\n"


def test_a_transaction_is_aborted(penstock: Broker) -> None:
    topic = penstock.topic()
    process = started(f"produce {topic} --transactional-id shop", penstock)
    assert process.stdin is not None
    process.stdin.write(b"a\n" * 100_000)
    process.stdin.flush()
    printed = interrupt_after(1, process, penstock, topic)
    assert printed == "penstock: interrupted: the transaction is aborted, nothing is written\n"
    command = [sys.executable, "-m", "penstock.cli.main", "consume", topic, "--committed"]
    read = subprocess.run(
        [*command, "--bootstrap", penstock.bootstrap], capture_output=True, timeout=120, check=True
    )
    assert read.stdout == b""


def test_perf_produce_shows_the_figures_so_far(penstock: Broker) -> None:
    topic = penstock.topic()
    process = started(f"perf produce {topic} --seconds 600", penstock)
    printed = interrupt_after(1000, process, penstock, topic)
    assert "records/s" in printed
    assert printed.count("\n") == 1


def test_only_ctrl_c_is_taken_for_ctrl_c() -> None:
    """A task that failed cancels what it belongs to as well, and that is no interruption."""

    async def wait() -> None:
        await asyncio.Event().wait()

    async def cancelled() -> bool:
        working = asyncio.ensure_future(until_interrupted(wait()))
        await asyncio.sleep(0)
        working.cancel()
        return await working

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancelled())


@contextmanager
def handled(number: signal.Signals, how: signal.Handlers | Callable[..., None]) -> Iterator[None]:
    before = signal.signal(number, how)
    try:
        yield
    finally:
        signal.signal(number, before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_work_and_what_comes_after_it_is_done(number: signal.Signals) -> None:
    async def interrupt() -> None:
        os.kill(os.getpid(), number)
        await asyncio.Event().wait()

    async def interrupted() -> bool:
        async with asyncio.timeout(60):
            finished = await until_interrupted(interrupt())
        if number == signal.SIGHUP:  # a shell that ends sends another one
            os.kill(os.getpid(), number)
        await asyncio.sleep(0)
        return finished

    by_default = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
    with handled(number, by_default):
        assert not asyncio.run(interrupted())
        kept = signal.SIG_IGN if number == signal.SIGHUP else by_default
        assert signal.getsignal(number) is kept


def test_what_is_ignored_stays_so_during_the_work() -> None:
    async def work() -> None:
        os.kill(os.getpid(), signal.SIGHUP)
        await asyncio.sleep(0)

    async def finished() -> bool:
        return await until_interrupted(work())

    with handled(signal.SIGHUP, signal.SIG_IGN):
        assert asyncio.run(finished())
