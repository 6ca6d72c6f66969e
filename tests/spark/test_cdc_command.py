"""`penstock cdc capture` as a user has it: a process of its own, which may be killed."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from penstock.spark.pipelines.cdc.generate import feed
from rig.clients.confluent import ConfluentClient
from rig.redis_server import RedisServer
from rig.serve import ServedNode
from rig.shop_table import place_in_log, products, told, told_twice
from rig.sink_output import committed_records

pytestmark = pytest.mark.slow

SECONDS_MAX = 120
KILLS = 5


@pytest.fixture
def prefix(postgres: str) -> str:
    """Slots of all databases of a server have different names."""
    return f"cli-{conninfo_to_dict(postgres)['dbname']}"


def command(node: ServedNode, dsn: str, prefix: str, *more: str) -> list[str]:
    program = str(Path(sys.executable).with_name("penstock"))
    line = [program, "cdc", "capture", "--postgres", dsn, "--prefix", prefix]
    return [*line, "--table", "products", "--bootstrap", node.bootstrap, *more]


@contextmanager
def running(line: list[str], folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    with open(folder / "said", "ab") as said:
        child = subprocess.Popen(line, stdout=said, stderr=said, env=dict(os.environ))
    try:
        yield child
    finally:
        child.kill()
        child.wait()


@pytest.fixture
def interrupts() -> Iterator[None]:
    """Children hear Ctrl-C also where the tests run in the background, and ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def await_records(node: ServedNode, topic: str, more_than: int) -> int:
    deadline = time.monotonic() + SECONDS_MAX
    client = ConfluentClient(node.bootstrap)
    while topic not in client.topics():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    client.close()
    while time.monotonic() < deadline:
        count = len(committed_records(node.bootstrap, topic))
        if count > more_than:
            return count
        time.sleep(0.05)
    raise AssertionError(f"{topic} has no more than {more_than} records")


def once(node: ServedNode, dsn: str, prefix: str, *more: str) -> subprocess.CompletedProcess[str]:
    line = command(node, dsn, prefix, "--once", *more)
    return subprocess.run(line, capture_output=True, text=True, timeout=SECONDS_MAX)


def test_changes_are_in_the_topic_once_though_the_process_is_killed(
    node: ServedNode, postgres: str, prefix: str, folder: Path
) -> None:
    feed(postgres, 0, transactions_max=20)
    assert once(node, postgres, prefix).returncode == 0
    topic = f"{prefix}.public.products"
    ended = threading.Event()

    def change() -> None:
        seed = 1
        while not ended.is_set():
            feed(postgres, seed, transactions_max=20, pause_seconds=0.005)
            seed += 1

    changing = threading.Thread(target=change)
    changing.start()
    try:
        count = 0
        for _ in range(KILLS):
            with running(command(node, postgres, prefix), folder) as child:
                # At any point: what was received is written, half written or not.
                count = await_records(node, topic, count + 50)
                assert child.poll() is None
    finally:
        ended.set()
        changing.join()
    assert once(node, postgres, prefix).returncode == 0
    records = committed_records(node.bootstrap, topic)
    assert told(records) == products(postgres)
    assert not told_twice(records)
    assert confirmed_position(postgres) > max(map(place_in_log, records))[0]


def confirmed_position(dsn: str) -> int:
    """From here on the server keeps its log."""
    with psycopg.connect(dsn) as connection:
        [(found,)] = connection.execute(
            "SELECT confirmed_flush_lsn - '0/0' FROM pg_replication_slots"
            " WHERE database = current_database()"
        ).fetchall()
    return int(found)


def test_it_waits_for_a_node_that_was_killed(
    node: ServedNode, postgres: str, prefix: str, folder: Path
) -> None:
    feed(postgres, 0, transactions_max=5)
    topic = f"{prefix}.public.products"
    with running(command(node, postgres, prefix), folder) as child:
        count = await_records(node, topic, 0)
        node.kill()
        try:
            feed(postgres, 1, transactions_max=50)
        finally:
            node.start()
        await_records(node, topic, count + 50)
        assert child.poll() is None, (folder / "said").read_text()
    assert once(node, postgres, prefix).returncode == 0
    records = committed_records(node.bootstrap, topic)
    assert told(records) == products(postgres)
    assert not told_twice(records)


def test_index_and_cache_follow_and_are_asked(
    node: ServedNode, postgres: str, prefix: str, folder: Path
) -> None:
    server = RedisServer()
    server.start()
    topic, program = f"{prefix}.public.products", str(Path(sys.executable).with_name("penstock"))
    index, bootstrap = str(folder / "index"), ["--bootstrap", node.bootstrap]
    indexing = [program, "cdc", "index", "--topic", topic, "--file", index, *bootstrap]
    caching = [program, "cdc", "cache", "--topic", topic, "--redis", server.url, *bootstrap]
    try:
        feed(postgres, 0, transactions_max=30)
        assert once(node, postgres, prefix).returncode == 0
        subprocess.run([*indexing, "--once"], check=True, timeout=SECONDS_MAX)
        with running(caching, folder):
            await_keys(server, topic, products(postgres))
            # A cache that was killed starts empty, and is filled again.
            server.kill()
            feed(postgres, 1, transactions_max=30)
            assert once(node, postgres, prefix).returncode == 0
            server.start()
            await_keys(server, topic, products(postgres))
    finally:
        server.close()
    subprocess.run([*indexing, "--once"], check=True, timeout=SECONDS_MAX)
    asked = [program, "cdc", "search", index, "lamp", "--limit", "10000", "--json"]
    found = subprocess.run(asked, check=True, capture_output=True, text=True, timeout=SECONDS_MAX)
    hits = [json.loads(line) for line in found.stdout.splitlines()]
    lamps = {key: row for key, row in products(postgres).items() if "lamp" in str(row["name"])}
    assert {int(hit["key"]): hit["row"] for hit in hits} == lamps


def await_keys(server: RedisServer, topic: str, rows: dict[int, dict[str, object]]) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    wanted = {f"{topic}:{key}" for key in rows}
    while set(server.client().scan_iter(f"{topic}:*")) != wanted:
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.usefixtures("interrupts")
def test_ctrl_c_ends_it(node: ServedNode, postgres: str, prefix: str, folder: Path) -> None:
    feed(postgres, 0, transactions_max=5)
    with running(command(node, postgres, prefix), folder) as child:
        topic = f"{prefix}.public.products"
        while "public.products to" not in (folder / "said").read_text():
            time.sleep(0.05)
        await_records(node, topic, 0)
        child.send_signal(signal.SIGINT)
        assert child.wait(SECONDS_MAX) == 0, (folder / "said").read_text()
    assert f"public.products to {topic}\n" in (folder / "said").read_text()


def test_what_cannot_be_done_is_said_in_one_line(
    node: ServedNode, postgres: str, prefix: str
) -> None:
    ended = once(node, postgres, prefix, "--table", "sales.orders")
    assert ended.returncode == 1
    said = ended.stderr.splitlines()[-1]
    assert said.endswith("the database has no table public.products, sales.orders")
    ended = once(node, postgres, prefix, "--table", "public.products")
    assert ended.stderr.splitlines()[-1].endswith("table public.products is named twice")
    ended = once(node, "host=127.0.0.1 port=1", prefix)
    assert "PostgreSQL at 127.0.0.1:1" in ended.stderr.splitlines()[-1]
