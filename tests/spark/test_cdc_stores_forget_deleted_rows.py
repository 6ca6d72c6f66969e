"""An index or a cache remembers deleted rows only while an older change of them may still come."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.spark.pipelines.cdc import follower
from penstock.spark.pipelines.cdc.latest_rows import Place, Row, latest
from penstock.spark.pipelines.cdc.record import POSITION, STEP
from penstock.spark.pipelines.cdc.store_progress import (
    Progress,
    forgettable_before,
    later_positions,
)
from rig.clients.confluent import ConfluentClient
from rig.clients.interface import Message
from rig.redis_server import RedisServer
from rig.row_stores import KeptCache, KeptIndex, KeptRows, follow_into
from rig.serve import ServedNode


@pytest.fixture
def name(topic: Callable[..., str]) -> str:
    return topic(partitions=2)


@pytest.fixture(params=["index", "cache"])
def kept(request: pytest.FixtureRequest, name: str, folder: Path) -> Iterator[KeptRows]:
    if request.param == "index":
        yield KeptIndex(folder / "index", topic=name)
        return
    server = RedisServer()
    server.start()
    yield KeptCache(server, name=name)
    server.close()


def change(key: str, position: int, *, partition: int, is_gone: bool = False) -> Message:
    headers = ((POSITION, b"%d" % position), (STEP, b"0"))
    value = None if is_gone else b'{"v":"lamp"}'
    return Message(key=key.encode(), value=value, headers=headers, partition=partition)


def test_places_of_deleted_rows_go_when_all_partitions_are_read_beyond_them(
    node: ServedNode, confluent: ConfluentClient, name: str, kept: KeptRows
) -> None:
    confluent.produce(
        name,
        [
            *(change(f"gone{one}", one, partition=0, is_gone=True) for one in range(10, 20)),
            change("there", 30, partition=0),
        ],
    )
    follow_into(kept.open(), node.bootstrap, name)
    follow_into(kept.open(), node.bootstrap, name)
    gone = {f"gone{one}" for one in range(10, 20)}
    assert kept.remembered() == {*gone, "there"}  # of the other partition nothing is known
    confluent.produce(name, [change("gone12", 5, partition=1), change("other", 15, partition=1)])
    follow_into(kept.open(), node.bootstrap, name)
    assert set(kept.rows()) == {"there", "other"}
    follow_into(kept.open(), node.bootstrap, name)
    rest = {f"gone{one}" for one in range(15, 20)}
    assert kept.remembered() == {*rest, "there", "other"}
    confluent.produce(name, [change("gone17", 16, partition=1), change("other", 40, partition=1)])
    follow_into(kept.open(), node.bootstrap, name)
    follow_into(kept.open(), node.bootstrap, name)
    assert kept.remembered() == set(kept.rows()) == {"there", "other"}


def test_a_partition_that_was_added_may_have_older_changes(
    node: ServedNode, confluent: ConfluentClient, name: str, kept: KeptRows
) -> None:
    confluent.produce(name, [change("1", 10, partition=0, is_gone=True)])
    confluent.produce(name, [change("2", 20, partition=one) for one in (0, 1)])
    follow_into(kept.open(), node.bootstrap, name)
    confluent.add_partitions(name, total=3)
    confluent.produce(name, [change("1", 5, partition=2)])
    follow_into(kept.open(), node.bootstrap, name)
    assert set(kept.rows()) == {"2"}
    confluent.produce(name, [change("3", 11, partition=2)])
    follow_into(kept.open(), node.bootstrap, name)
    follow_into(kept.open(), node.bootstrap, name)
    assert kept.remembered() == {"2", "3"}


def test_a_follower_that_runs_on_forgets_too(
    node: ServedNode,
    confluent: ConfluentClient,
    name: str,
    kept: KeptRows,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(follower, "LOOK_MS", 0)
    confluent.produce(name, [change("1", 10, partition=0, is_gone=True)])
    confluent.produce(name, [change("2", 20, partition=one) for one in (0, 1)])
    follow_into(kept.open(), node.bootstrap, name, lambda: kept.remembered() != {"2"})
    assert set(kept.rows()) == {"2"}


def test_a_deleted_row_without_a_place_is_not_remembered(
    node: ServedNode, confluent: ConfluentClient, name: str, kept: KeptRows
) -> None:
    confluent.produce(name, [Message(key=b"1", value=b'{"v":"lamp"}', partition=0)])
    follow_into(kept.open(), node.bootstrap, name)
    assert kept.remembered() == {"1"}
    confluent.produce(name, [Message(key=b"1", partition=0)])
    follow_into(kept.open(), node.bootstrap, name)
    assert kept.remembered() == set(kept.rows()) == set()


# Changes of one table in the order of its log: which row, whether it is gone, in which partition.
CHANGES = st.lists(st.tuples(st.integers(0, 2), st.booleans(), st.integers(0, 2)), min_size=6)
READS = st.lists(st.tuples(st.integers(0, 2), st.integers(1, 4)))  # a partition, how many records


@given(CHANGES, READS)
def test_what_is_forgotten_is_not_missed_however_partitions_are_read(
    changes: Sequence[tuple[int, bool, int]], reads: Sequence[tuple[int, int]]
) -> None:
    logs: list[list[Row]] = [[], [], []]
    table: dict[str, Row] = {}
    for position, (key, is_gone, partition) in enumerate(changes, start=1):
        row = Row(str(key), Place(position, 0), None if is_gone else {"v": position})
        logs[partition].append(row)
        table[row.key] = row
    stored: dict[str, Row] = {}
    progress = Progress(topic_id=None, next_offsets={}, change_positions={})
    for partition, count in (*reads, *((one, len(changes)) for one in (0, 1, 2))):
        begin = progress.next_offsets.get(partition, 0)
        rows = logs[partition][begin : begin + count]
        places = {key: row.place for key, row in stored.items()}
        stored |= {row.key: row for row in latest(rows, places)}
        progress = Progress(
            topic_id=None,
            next_offsets={**progress.next_offsets, partition: begin + len(rows)},
            change_positions=later_positions(
                progress.change_positions, [(partition, row) for row in rows]
            ),
        )
        before = forgettable_before(progress, (0, 1, 2))
        stored = {
            key: row
            for key, row in stored.items()
            if row.fields is not None or row.place.position >= before
        }
    there = {key: row for key, row in table.items() if row.fields is not None}
    assert {key: row for key, row in stored.items() if row.fields is not None} == there
