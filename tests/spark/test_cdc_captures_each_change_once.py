"""Changes of a real table in a topic: all of them, once, though the capture is killed anywhere."""

import asyncio
import itertools
import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from penstock.client.network.cluster import Cluster
from penstock.spark.pipelines.cdc import capture as capture_module
from penstock.spark.pipelines.cdc import change_writer, replication_stream
from penstock.spark.pipelines.cdc.capture import (
    OtherDatabase,
    capture,
    capture_beside,
    keep_capturing,
)
from penstock.spark.pipelines.cdc.database import NoPrimaryKey, UnknownTable
from penstock.spark.pipelines.cdc.generate import INSERT, MAKE_TABLE, feed
from penstock.spark.pipelines.cdc.replication_stream import SlotLost
from penstock.spark.tables.errors import DatabaseUnreachable
from rig.clients.confluent import ConfluentClient
from rig.killed_lines import Killer
from rig.postgres import Databases
from rig.serve import ServedNode
from rig.shop_table import capture_all, place_in_log, products, source_of, told, told_twice
from rig.sink_output import committed_records, open_transactional_ids

pytestmark = pytest.mark.slow

Topics = tuple[str, str, str]
LANES = 4


def new_topics(topic: Callable[..., str]) -> Topics:
    """One for changes, one for positions, one for events."""
    compacted = {"cleanup.policy": "compact"}
    return topic(partitions=3, **compacted), topic(**compacted), topic()


@pytest.fixture
def topics(topic: Callable[..., str]) -> Topics:
    return new_topics(topic)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """A database and topics of its own. Captures wait more than they compute, so several lanes
    share the lines at which one is killed: a lane takes every fourth.
    """

    first_line: int
    dsn: str
    topics: Topics


@pytest.fixture
def lanes(databases: Databases, topic: Callable[..., str]) -> list[Lane]:
    return [
        Lane(first_line=number, dsn=databases.fresh(), topics=new_topics(topic))
        for number in range(1, LANES + 1)
    ]


def last_line_of(lanes: list[Lane], kill: Callable[[Lane], int]) -> int:
    """In all lanes at the same time; `kill` returns the line that was not come to any more."""
    with ThreadPoolExecutor(len(lanes)) as threads:
        return max(threads.map(kill, lanes))


def test_a_topic_follows_its_table(node: ServedNode, postgres: str, topics: Topics) -> None:
    feed(postgres, 1, transactions_max=100)
    captured = capture_all(postgres, *topics, node.bootstrap)
    assert captured == 0, "all of it is in the snapshot"
    assert told(committed_records(node.bootstrap, topics[0])) == products(postgres)
    feed(postgres, 2, transactions_max=100)
    captured = capture_all(postgres, *topics, node.bootstrap)
    assert captured > 100
    assert capture_all(postgres, *topics, node.bootstrap) == 0
    records = committed_records(node.bootstrap, topics[0])
    assert told(records) == products(postgres)
    assert not told_twice(records)
    assert sum(record.value is None for record in records) > 5
    by_partition = [
        [place_in_log(record) for record in records if record.partition == partition]
        for partition in range(3)
    ]
    for places in by_partition:
        assert all(before < after for before, after in pairwise(places))


def test_a_capture_killed_at_any_line_loses_and_repeats_nothing(
    node: ServedNode, lanes: list[Lane]
) -> None:
    def kill(lane: Lane) -> int:
        dsn, topics = lane.dsn, lane.topics
        feed(dsn, 0, transactions_max=10)
        with Killer(capture_all, capture_module, change_writer, replication_stream) as killer:
            for line in killer.lines(lane.first_line, step=LANES):
                feed(dsn, line, transactions_max=2)
                if killer.survives(line, dsn, *topics, node.bootstrap):
                    break
        capture_all(dsn, *topics, node.bootstrap)
        records = committed_records(node.bootstrap, topics[0])
        assert told(records) == products(dsn)
        assert not told_twice(records)
        identity = source_of(dsn, *topics).transactional_id
        assert identity not in open_transactional_ids(node.bootstrap)
        return line

    assert last_line_of(lanes, kill) > 100


def test_a_table_made_anew_is_complete_though_the_capture_is_killed_at_any_line(
    node: ServedNode, lanes: list[Lane]
) -> None:
    def make_anew(lane: Lane, row: int) -> None:
        with psycopg.connect(lane.dsn) as connection:
            connection.execute("DROP TABLE IF EXISTS products")
            connection.execute(MAKE_TABLE)
            connection.execute(INSERT, (row, "lamp", "", "lights", 100, 1))

    def kill(lane: Lane) -> int:
        dsn, topics = lane.dsn, lane.topics
        make_anew(lane, 0)
        capture_all(dsn, *topics, node.bootstrap)
        with Killer(capture_all, capture_module) as killer:
            for line in killer.lines(lane.first_line, step=LANES):
                make_anew(lane, line)
                survives = killer.survives(line, dsn, *topics, node.bootstrap)
                capture_all(dsn, *topics, node.bootstrap)
                assert told(committed_records(node.bootstrap, topics[0])) == products(dsn)
                if survives:
                    break
        return line

    assert last_line_of(lanes, kill) > 50


def test_what_cannot_be_captured_is_told_in_one_line(
    node: ServedNode, postgres: str, topics: Topics
) -> None:
    with psycopg.connect(postgres) as connection:
        connection.execute("CREATE TABLE loose (id int)")
    source = source_of(postgres, *topics)
    with pytest.raises(UnknownTable, match=r"the database has no table public\.products$"):
        capture(source, node.bootstrap)
    loose = replace(source, topics={"public.loose": topics[0]})
    with pytest.raises(NoPrimaryKey, match=r"public\.loose has no primary key"):
        capture(loose, node.bootstrap)
    away = replace(source, dsn="host=127.0.0.1 port=1")
    with pytest.raises(DatabaseUnreachable, match=r"PostgreSQL at 127\.0\.0\.1:1"):
        capture(away, node.bootstrap)


def test_a_slot_that_is_gone_is_told(node: ServedNode, postgres: str, topics: Topics) -> None:
    feed(postgres, 1, transactions_max=2)
    capture_all(postgres, *topics, node.bootstrap)
    with psycopg.connect(postgres) as connection:
        connection.execute(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots "
            "WHERE database = current_database()"
        )
    with pytest.raises(SlotLost, match=r"slot 'shop_.*' is gone, and with it"):
        capture_all(postgres, *topics, node.bootstrap)


def test_two_clusters_follow_one_database(
    node: ServedNode, postgres: str, topics: Topics, folder: Path
) -> None:
    second = ServedNode(data=folder / "second")
    second.start()
    client = ConfluentClient(second.bootstrap)
    for name in topics:
        client.create_topic(name)
    client.close()
    try:
        for seed, bootstrap in enumerate((node, second, node, second)):
            feed(postgres, seed, transactions_max=20)
            capture_all(postgres, *topics, bootstrap.bootstrap)
        capture_all(postgres, *topics, node.bootstrap)
        for bootstrap in (node, second):
            records = committed_records(bootstrap.bootstrap, topics[0])
            assert told(records) == products(postgres)
            assert not told_twice(records)
    finally:
        second.stop()


def test_another_database_is_not_taken_for_the_first(
    node: ServedNode, databases: Databases, topics: Topics
) -> None:
    first, other = databases.fresh(), databases.fresh()
    for dsn in (first, other):
        feed(dsn, 1, transactions_max=3)
    capture_all(first, *topics, node.bootstrap)
    source = replace(source_of(first, *topics), dsn=other)
    with pytest.raises(OtherDatabase, match="holds positions of another database"):
        capture(source, node.bootstrap)


def test_a_server_that_does_not_answer_is_noticed(
    node: ServedNode, postgres: str, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed(postgres, 1, transactions_max=2)
    monkeypatch.setattr(replication_stream, "ASK_SECONDS", 0.1)
    monkeypatch.setattr(replication_stream, "SERVER_SECONDS_MAX", 1)
    stopped: list[int] = []

    def goes_on() -> bool:
        if not stopped:
            with psycopg.connect(postgres) as connection:
                [(sender,)] = connection.execute(
                    "SELECT active_pid FROM pg_replication_slots"
                    " WHERE database = current_database()"
                ).fetchall()
            os.kill(sender, signal.SIGSTOP)
            stopped.append(sender)
        return True

    try:
        with pytest.raises(psycopg.OperationalError, match="the server does not answer"):
            capture(source_of(postgres, *topics), node.bootstrap, goes_on)
    finally:
        for sender in stopped:
            os.kill(sender, signal.SIGCONT)
    feed(postgres, 2, transactions_max=2)
    capture_all(postgres, *topics, node.bootstrap)
    assert told(committed_records(node.bootstrap, topics[0])) == products(postgres)


def test_a_server_hears_of_a_capture_that_is_busy_for_long(
    node: ServedNode, postgres: str, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed(postgres, 1, transactions_max=2)
    capture_all(postgres, *topics, node.bootstrap)
    name = conninfo_to_dict(postgres)["dbname"]
    with psycopg.connect(postgres) as connection:
        connection.execute(f"ALTER DATABASE {name} SET wal_sender_timeout = '1s'".encode())
        connection.execute("TRUNCATE products")
    monkeypatch.setattr(replication_stream, "ASK_SECONDS", 0.1)
    read_keys = change_writer.live_keys

    async def large_topic(cluster: Cluster, name: str) -> set[bytes]:
        await asyncio.sleep(3)
        return await read_keys(cluster, name)

    monkeypatch.setattr(change_writer, "live_keys", large_topic)
    assert capture_all(postgres, *topics, node.bootstrap) > 0
    assert told(committed_records(node.bootstrap, topics[0])) == {}


def test_a_capture_waits_for_a_slot_that_another_reads(
    node: ServedNode, postgres: str, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replication_stream, "SLOT_ATTEMPTS_MAX", 2)
    monkeypatch.setattr(capture_module, "TROUBLE_PAUSE_SECONDS", 0.1)
    monkeypatch.setattr(capture_module, "PROOF_SECONDS", 600)  # it does not notice the newer one
    feed(postgres, 1, transactions_max=2)
    source = source_of(postgres, *topics)
    reads, waited, ended = threading.Event(), threading.Event(), threading.Event()

    def first_goes_on() -> bool:
        reads.set()
        return not waited.is_set()

    first = threading.Thread(target=capture, args=(source, node.bootstrap, first_goes_on))
    first.start()
    assert reads.wait(120)
    looks = itertools.count()

    def newer_goes_on() -> bool:
        if next(looks) == 2:  # it has waited, and is to try again
            waited.set()
        return not ended.is_set()

    newer = threading.Thread(target=keep_capturing, args=(source, node.bootstrap, newer_goes_on))
    newer.start()
    first.join(120)
    assert waited.is_set()
    feed(postgres, 2, transactions_max=20)
    deadline = time.monotonic() + 120
    while told(committed_records(node.bootstrap, topics[0])) != products(postgres):
        assert newer.is_alive()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    ended.set()
    newer.join(120)
    assert not told_twice(committed_records(node.bootstrap, topics[0]))


def test_a_capture_that_cannot_go_on_ends_its_queries(
    node: ServedNode, postgres: str, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = threading.Event()
    source = source_of(postgres, *topics)  # of a table that is not there
    told_of: list[str] = []
    monkeypatch.setattr(threading, "excepthook", lambda seen: told_of.append(str(seen.exc_value)))
    thread = capture_beside(
        source, node.bootstrap, goes_on=lambda: not ended.is_set(), ended=ended.set
    )
    thread.join(120)
    assert ended.is_set()
    assert [said for said in told_of if "products" in said]
