"""A search index and a cache of a real table: the latest row of each key, whatever is killed."""

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from penstock.spark.pipelines.cdc import (
    follower,
    latest_rows,
    redis_cache,
    search_index,
    store_progress,
)
from penstock.spark.pipelines.cdc.generate import feed
from penstock.spark.pipelines.cdc.latest_rows import BadRow, Place, Row, latest
from penstock.spark.pipelines.cdc.redis_cache import CacheChanged, CacheUnreachable, RedisCache
from penstock.spark.pipelines.cdc.search_index import BadQuery, OtherIndex, SearchIndex, search
from penstock.spark.pipelines.cdc.store_progress import Progress
from rig.clients.confluent import ConfluentClient
from rig.clients.interface import Message
from rig.killed_lines import Killer
from rig.redis_server import RedisServer
from rig.row_stores import follow_into
from rig.serve import ServedNode
from rig.shop_table import capture_all, products

COUNT_MAX = 10_000
Topics = tuple[str, str, str]


@pytest.fixture
def server() -> Iterator[RedisServer]:
    one = RedisServer()
    one.start()
    yield one
    one.close()


@pytest.fixture
def topics(topic: Callable[..., str]) -> Topics:
    """One for changes, one for positions, one for events."""
    compacted = {"cleanup.policy": "compact"}
    return topic(partitions=3, **compacted), topic(**compacted), topic()


def index_all(file: str, bootstrap: str, topic: str) -> None:
    with SearchIndex(Path(file), topic=topic) as index:
        follow_into(index, bootstrap, topic)


def cache_all(url: str, bootstrap: str, topic: str) -> None:
    follow_into(RedisCache(url, name=topic), bootstrap, topic)


def indexed(file: Path) -> dict[int, dict[str, object]]:
    """All rows of the table of products: each has a kind of thing in its name."""
    words = "lamp OR saw OR kettle OR spade OR robot OR shelf OR clock OR kite"
    return {int(hit.key): hit.row for hit in search(file, words, count_max=COUNT_MAX)}


def cached(server: RedisServer, topic: str) -> dict[int, dict[str, object]]:
    client = server.client()
    found = {}
    for key in client.scan_iter(f"{topic}:*"):
        value = client.get(key)
        assert value is not None
        found[int(key.removeprefix(f"{topic}:"))] = json.loads(value)
    return found


def test_index_and_cache_are_as_the_table_is(
    node: ServedNode, postgres: str, topics: Topics, folder: Path, server: RedisServer
) -> None:
    file = folder / "index"
    for seed in (1, 2):
        feed(postgres, seed, transactions_max=150)
        capture_all(postgres, *topics, node.bootstrap)
        index_all(str(file), node.bootstrap, topics[0])
        cache_all(server.url, node.bootstrap, topics[0])
    rows = products(postgres)
    assert indexed(file) == rows
    assert cached(server, topics[0]) == rows
    for hit in search(file, '"oak lamp" OR steel*', count_max=3):
        text = f"{hit.row['name']} {hit.row['description']}"
        assert "oak lamp" in text or "steel" in text


def test_followers_that_are_killed_at_any_line_lose_no_row(
    node: ServedNode, postgres: str, topics: Topics, folder: Path, server: RedisServer
) -> None:
    files = (follower, latest_rows, store_progress, search_index, redis_cache)
    for function, target in ((index_all, str(folder / "index")), (cache_all, server.url)):
        # Until the rows are written, each run begins with all of them.
        feed(postgres, 1, transactions_max=20)
        capture_all(postgres, *topics, node.bootstrap)
        with Killer(function, *files) as killer:
            for line in killer.lines():
                if killer.survives(line, target, node.bootstrap, topics[0]):
                    break
        assert line > 20
        feed(postgres, 2, transactions_max=20)
        capture_all(postgres, *topics, node.bootstrap)
    cache_all(server.url, node.bootstrap, topics[0])
    index_all(str(folder / "index"), node.bootstrap, topics[0])
    assert indexed(folder / "index") == products(postgres)
    assert cached(server, topics[0]) == products(postgres)


def test_a_cache_that_was_killed_is_filled_again(
    node: ServedNode, postgres: str, topics: Topics, server: RedisServer
) -> None:
    feed(postgres, 1, transactions_max=50)
    capture_all(postgres, *topics, node.bootstrap)
    store = RedisCache(server.url, name=topics[0])
    follow_into(store, node.bootstrap, topics[0])
    server.kill()
    with pytest.raises(CacheUnreachable, match="the cache does not answer"):
        follow_into(store, node.bootstrap, topics[0])
    server.start()
    with pytest.raises(CacheChanged):  # it has only what comes now, and does not know the rest
        beyond = Progress(topic_id=None, next_offsets={0: 1_000_000}, change_positions={})
        store.write([], beyond)
    follow_into(store, node.bootstrap, topics[0])
    assert cached(server, topics[0]) == products(postgres)


def test_all_that_there_is_is_read_though_partitions_are_added_meanwhile(
    node: ServedNode,
    topic: Callable[..., str],
    confluent: ConfluentClient,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(follower, "LOOK_MS", 0)
    monkeypatch.setattr(follower, "ROWS_AT_ONCE", 1)
    name = topic()
    confluent.produce(name, [Message(key=b"%d" % one, value=b'{"v":"lamp"}') for one in range(20)])

    class Growing(SearchIndex):
        def write(self, rows: list[Row], progress: Progress) -> None:
            if confluent.partition_count(name) == 1:
                confluent.add_partitions(name, total=2)
            super().write(rows, progress)

    with Growing(folder / "index", topic=name) as index:
        assert follow_into(index, node.bootstrap, name) == 20
    assert len(indexed(folder / "index")) == 20


def test_an_index_whose_making_was_cut_short_is_made_again(folder: Path) -> None:
    file = folder / "index"
    with closing(sqlite3.connect(file)) as base:
        base.executescript(search_index.TABLES)
        base.execute("""
            CREATE TRIGGER cut BEFORE INSERT ON meta WHEN NEW.name = 'columns'
            BEGIN SELECT RAISE (ABORT, 'cut short'); END
        """)
    with pytest.raises(OtherIndex, match="cut short"):
        SearchIndex(file, topic="t")
    with closing(sqlite3.connect(file)) as base:
        base.execute("DROP TRIGGER cut")
    with SearchIndex(file, topic="t") as index:
        assert index.progress().next_offsets == {}


def test_the_later_of_two_rows_is_taken_wherever_it_lies() -> None:
    old, new = Row("1", Place(10, 0), {"v": 1}), Row("1", Place(10, 1), None)
    assert latest([old, new], {}) == [new]
    assert latest([new, old], {}) == [new]
    assert latest([old], {"1": Place(10, 1)}) == []
    assert latest([new], {"1": Place(10, 1)}) == [new]
    unplaced = Row("1", Place(0, 0), {"v": 2})
    assert latest([old, unplaced], {"1": Place(10, 0)}) == [unplaced]


def test_what_cannot_be_followed_or_searched_is_told_in_one_line(
    node: ServedNode, topic: Callable[..., str], confluent: ConfluentClient, folder: Path
) -> None:
    name = topic()
    confluent.produce(name, [Message(key=b"1", value=b"no row")])
    file = folder / "index"
    with pytest.raises(BadRow, match=f"{name}:0 offset 0: the record is no row as JSON"):
        index_all(str(file), node.bootstrap, name)
    with pytest.raises(OtherIndex, match=f"is the index of topic {name}, columns all"):
        SearchIndex(file, topic="other")
    with pytest.raises(BadQuery, match="unterminated string"):
        search(file, '"open', count_max=1)
    with pytest.raises(OtherIndex, match="does not exist"):
        search(folder / "nothing", "lamp", count_max=1)
    (folder / "text").write_text("no database at all, but more than a header's worth of text" * 9)
    with pytest.raises(OtherIndex, match="is no index"):
        search(folder / "text", "lamp", count_max=1)
