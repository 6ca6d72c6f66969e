"""A view is built from the first event and taken over by readers while events keep coming."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.spark.pipelines.generated import Event
from penstock.spark.pipelines.place import Place
from penstock.spark.pipelines.replay import job, steps
from penstock.spark.pipelines.replay.generate import events
from rig.clients.confluent import ConfluentClient
from rig.ledger import Account, folded, shown
from rig.pipeline_input import make_topics, send
from rig.serve import ServedNode
from rig.sink_output import committed_records, open_transactional_ids

pytestmark = pytest.mark.slow

PATIENCE_SECONDS = 300.0
V1, V2 = job.topic_of(1), job.topic_of(2)


@pytest.fixture
def bank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedNode]:
    """A node with the topics of the pipeline, and nothing in them."""
    settings = {"transaction.two.phase.commit.enable": "true"}
    served = ServedNode(data=tmp_path_factory.mktemp("bank") / "node", settings=settings)
    served.start()
    make_topics(served.bootstrap, "replay")
    yield served
    assert served.stop() == 0


def test_readers_get_a_new_version_without_gap_or_duplicate_while_events_come_in(
    spark: SparkSession, bank: ServedNode, folder: Path
) -> None:
    happened = list(islice(events(31, accounts=40), 600))
    place = Place(bootstrap=bank.bootstrap, folder=str(folder), trigger_seconds=0.2)
    once = replace(place, once=True)
    client = ConfluentClient(bank.bootstrap)
    send(client, happened[:200])
    job.start_version(spark, once, 1)
    assert pointed_at(once) == V1

    with sending(client, happened[200:]) as sender:
        queries = job.start_version(spark, place, 2)
        assert pointed_at(place) == V2
        sender.join()
        await_true(lambda: events_in(shown(committed_records(bank.bootstrap, V2))) == 600)
        for query in queries:
            query.stop()
    client.close()

    assert shown(committed_records(bank.bootstrap, V2)) == folded(happened)
    assert shown(committed_records(bank.bootstrap, V1)) == folded(happened[:200])
    records = spark.read.format("penstock").option("kafka.bootstrap.servers", bank.bootstrap)
    view = steps.latest(
        records.option("subscribe", V2).load(), "account string, balance_cents bigint"
    )
    assert {row.account: row.balance_cents for row in view.collect()} == {
        name: account.balance_cents for name, account in folded(happened).items()
    }


def test_a_build_that_is_stopped_switches_nobody_and_goes_on_where_it_was(
    spark: SparkSession, bank: ServedNode, folder: Path
) -> None:
    happened = list(islice(events(32, accounts=40), 500))
    place = Place(bootstrap=bank.bootstrap, folder=str(folder), once=True)
    client = ConfluentClient(bank.bootstrap)
    send(client, happened[:400])
    with ThreadPoolExecutor(max_workers=1) as thread:
        starting = thread.submit(job.start, spark, replace(place, batch_records_max=5))
        await_true(lambda: starting.done() or bool(committed_records(bank.bootstrap, V2)))
        for query in spark.streams.active:
            query.stop()
        with pytest.raises(job.NotBuilt, match="stopped"):
            starting.result(PATIENCE_SECONDS)
    assert events_in(shown(committed_records(bank.bootstrap, V2))) < 400
    assert pointed_at(place) is None, "readers were switched to half a view"

    send(client, happened[400:])
    client.close()
    job.start(spark, place)
    assert pointed_at(place) == V2
    assert shown(committed_records(bank.bootstrap, V2)) == folded(happened)
    assert open_transactional_ids(bank.bootstrap) == []


def test_readers_are_never_taken_back(bank: ServedNode, folder: Path) -> None:
    place = Place(bootstrap=bank.bootstrap, folder=str(folder), once=True)
    for version in (2, 1):
        job.point(place, job.pointer_to(version))
        assert pointed_at(place) == V2


def pointed_at(place: Place) -> str | None:
    pointer = job.live_pointer(place)
    return None if pointer is None else pointer.topic


def events_in(view: dict[str, Account]) -> int:
    return sum(account.events for account in view.values())


@contextmanager
def sending(client: ConfluentClient, happening: Sequence[Event]) -> Iterator[threading.Thread]:
    """Sends the events one after the other, as they happen in a bank."""

    def work() -> None:
        for start in range(0, len(happening), 10):
            send(client, happening[start : start + 10])

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield thread
    finally:
        thread.join()


def await_true(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(0.2)
