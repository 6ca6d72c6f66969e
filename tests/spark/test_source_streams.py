"""How far each batch of a stream goes, what appears, what is lost."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
)

from penstock.spark.source.errors import (
    BadPosition,
    DataLoss,
    ForeignCheckpoint,
    SizesRefused,
)
from penstock.spark.source.stream import StreamReader
from rig.clients.confluent import ConfluentClient
from rig.clients.interface import Message
from rig.serve import ServedNode
from rig.spark_source import numbered, places, rows_of, stream_reader

EVERYTHING = ReadAllAvailable()


def next_batch(
    reader: StreamReader, start: dict[str, dict[str, int]], limit: ReadLimit = EVERYTHING
) -> tuple[dict[str, dict[str, int]], list[tuple[int, int]]]:
    end = reader.latestOffset(start, limit)
    return end, places(rows_of(reader, reader.partitions(start, end)))


def test_batches_follow_each_other_without_gap_or_repetition(
    node: ServedNode, confluent: ConfluentClient, topic: Callable[..., str]
) -> None:
    name = topic(partitions=2)
    confluent.produce(name, numbered(90, 0) + numbered(10, 1))
    reader = stream_reader(
        node.bootstrap, subscribe=name, startingOffsets="earliest", maxOffsetsPerTrigger="20"
    )
    try:
        limit = reader.getDefaultReadLimit()
        assert limit == ReadMaxRows(20)
        start = reader.initialOffset()
        assert start == {name: {"0": 0, "1": 0}}
        read = []
        while True:
            end, found = next_batch(reader, start, limit)
            if end == start:
                break
            assert 0 < len(found) <= 20
            read += found
            start = end
        assert start == {name: {"0": 90, "1": 10}} == reader.reportLatestOffset()
        assert sorted(read) == [(0, one) for one in range(90)] + [(1, one) for one in range(10)]
        assert len(read) == 100
    finally:
        reader.stop()


def test_a_stream_begins_at_the_end_unless_told(
    node: ServedNode, confluent: ConfluentClient, topic: Callable[..., str]
) -> None:
    name = topic()
    confluent.produce(name, numbered(5, 0))
    reader = stream_reader(node.bootstrap, subscribe=name)
    try:
        start = reader.initialOffset()
        assert next_batch(reader, start) == (start, [])
        confluent.produce(name, numbered(2, 0))
        assert next_batch(reader, start)[1] == [(0, 5), (0, 6)]
    finally:
        reader.stop()


def test_a_first_batch_that_failed_begins_where_it_was_to_begin(
    node: ServedNode, confluent: ConfluentClient, topic: Callable[..., str]
) -> None:
    """Spark asks for the place anew until a batch is done; of the first it knows the end alone."""
    name = topic()
    confluent.produce(name, numbered(5, 0))
    for fail in ("true", "false"):
        readers = [
            stream_reader(node.bootstrap, subscribe=name, failOnDataLoss=fail) for _ in range(2)
        ]
        try:
            start = readers[0].initialOffset()
            confluent.produce(name, numbered(3, 0))
            assert readers[0].initialOffset() == start
            end = readers[0].latestOffset(start, EVERYTHING)
            # The query ends here, and is started again.
            again = readers[1].initialOffset()
            assert again != end
            assert readers[1].partitions(again, end) == []
            _, found = next_batch(readers[1], end)
            assert found == [(0, start[name]["0"] + one) for one in range(3)]
        finally:
            for one in readers:
                one.stop()


def test_the_end_of_available_now_is_fixed_at_the_start(
    node: ServedNode, confluent: ConfluentClient, topic: Callable[..., str]
) -> None:
    name = topic()
    confluent.produce(name, numbered(5, 0))
    reader = stream_reader(
        node.bootstrap, subscribe=name, startingOffsets="earliest", minOffsetsPerTrigger="100"
    )
    try:
        reader.prepareForTriggerAvailableNow()
        confluent.produce(name, numbered(5, 0))
        confluent.add_partitions(name, total=2)
        end, found = next_batch(reader, {name: {"0": 0}}, reader.getDefaultReadLimit())
        assert end == {name: {"0": 5}}
        assert len(found) == 5
        assert next_batch(reader, end) == (end, [])
    finally:
        reader.stop()


def test_what_comes_between_the_fixed_end_and_the_start_is_left_to_the_next_run(
    node: ServedNode, confluent: ConfluentClient, topic: Callable[..., str]
) -> None:
    """Spark fixes the end of a query that ends before it asks where to begin."""
    name = topic()
    confluent.produce(name, numbered(5, 0))
    reader = stream_reader(node.bootstrap, subscribe=name)
    try:
        reader.prepareForTriggerAvailableNow()
        confluent.produce(name, numbered(3, 0))
        confluent.add_partitions(name, total=2)
        start = reader.initialOffset()
        assert start == {name: {"0": 5}}
        assert next_batch(reader, start) == (start, [])
    finally:
        reader.stop()


def test_partitions_that_appear_are_read_from_their_first_record(
    node: ServedNode, confluent: ConfluentClient, topic: Callable[..., str]
) -> None:
    name = topic()
    confluent.produce(name, numbered(3, 0))
    reader = stream_reader(node.bootstrap, subscribe=name)
    try:
        start = reader.initialOffset()
        assert next_batch(reader, start) == (start, [])
        confluent.add_partitions(name, total=3)
        confluent.produce(name, numbered(2, 2))
        end, found = next_batch(reader, start)
        assert end == {name: {"0": 3, "1": 0, "2": 2}}
        assert found == [(2, 0), (2, 1)]
    finally:
        reader.stop()


def test_too_little_is_waited_for_until_the_delay_has_passed(
    node: ServedNode, confluent: ConfluentClient, topic: Callable[..., str]
) -> None:
    name = topic()
    told = {"subscribe": name, "startingOffsets": "earliest", "minOffsetsPerTrigger": "10"}
    reader, hasty = (
        stream_reader(node.bootstrap, maxTriggerDelay=delay, **told) for delay in ("10m", "0ms")
    )
    try:
        confluent.produce(name, numbered(1, 0))
        start = {name: {"0": 1}}
        # The first batch waits for nobody.
        for one in (reader, hasty):
            assert one.latestOffset({name: {"0": 0}}, one.getDefaultReadLimit()) == start
        confluent.produce(name, numbered(9, 0))
        assert reader.latestOffset(start, reader.getDefaultReadLimit()) == start
        assert hasty.latestOffset(start, hasty.getDefaultReadLimit()) == {name: {"0": 10}}
        confluent.produce(name, numbered(1, 0))
        assert reader.latestOffset(start, reader.getDefaultReadLimit()) == {name: {"0": 11}}
    finally:
        reader.stop()
        hasty.stop()


def test_losses_are_told_or_passed_over(
    node: ServedNode, confluent: ConfluentClient, topic: Callable[..., str]
) -> None:
    name = topic()
    confluent.produce(name, numbered(10, 0))
    strict = stream_reader(node.bootstrap, subscribe=name)
    lenient = stream_reader(node.bootstrap, subscribe=name, failOnDataLoss="false")
    try:
        start, end = {name: {"0": 2}}, {name: {"0": 10}}
        assert strict.latestOffset(start, EVERYTHING) == end
        assert lenient.latestOffset(start, EVERYTHING) == end
        confluent.delete_records(name, 0, before_offset=6)
        with pytest.raises(DataLoss, match="offsets 2 to 5 are gone, its log begins at 6"):
            strict.partitions(start, end)
        assert places(rows_of(lenient, lenient.partitions(start, end))) == [
            (0, offset) for offset in range(6, 10)
        ]
        confluent.delete_topic(name)
        with pytest.raises(DataLoss, match="-0 does not exist any more"):
            strict.latestOffset(end, EVERYTHING)
        confluent.create_topic(name)
        confluent.produce(name, numbered(12, 0))
        with pytest.raises(DataLoss, match="deleted and created again"):
            strict.latestOffset(end, EVERYTHING)
        _, found = next_batch(lenient, end)
        assert found == [(0, offset) for offset in range(12)]
        # From then on the new topic is the topic.
        assert next_batch(lenient, {name: {"0": 12}}) == ({name: {"0": 12}}, [])
    finally:
        strict.stop()
        lenient.stop()


def test_retention_that_overtakes_a_limited_reader_is_skipped_in_one_step_and_told_once(
    node: ServedNode,
    confluent: ConfluentClient,
    topic: Callable[..., str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    name = topic(partitions=2)
    confluent.produce(name, numbered(100, 0) + numbered(10, 1))
    told = {"subscribe": name, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "11"}
    strict = stream_reader(node.bootstrap, **told)
    lenient = stream_reader(node.bootstrap, failOnDataLoss="false", **told)
    try:
        start = {name: {"0": 5, "1": 0}}
        confluent.delete_records(name, 0, before_offset=90)
        end, found = next_batch(lenient, start, lenient.getDefaultReadLimit())
        assert end == {name: {"0": 95, "1": 5}}
        assert sorted(found) == [(0, at) for at in range(90, 95)] + [(1, at) for at in range(5)]
        losses = [one.getMessage() for one in caplog.records if "data_loss=" in one.getMessage()]
        assert losses == [f"data_loss={name}-0: offsets 5 to 89 are gone, its log begins at 90"]
        end = strict.latestOffset(start, strict.getDefaultReadLimit())
        with pytest.raises(DataLoss, match="offsets 5 to 89 are gone"):
            strict.partitions(start, end)
    finally:
        strict.stop()
        lenient.stop()


def test_a_batch_has_about_as_many_bytes_as_it_may(
    node: ServedNode, confluent: ConfluentClient, topic: Callable[..., str]
) -> None:
    name = topic(partitions=2)
    large = [Message(value=b"x" * 10_000, partition=0) for _ in range(100)]
    confluent.produce(name, large + numbered(100, 1))
    told = {"subscribe": name, "startingOffsets": "earliest"}
    reader = stream_reader(node.bootstrap, maxBytesPerTrigger="100k", **told)
    both = stream_reader(
        node.bootstrap, maxBytesPerTrigger="100k", maxOffsetsPerTrigger="6", **told
    )
    try:
        limit = reader.getDefaultReadLimit()
        assert limit == ReadMaxBytes(100 * 1024)
        start = reader.initialOffset()
        batches = []
        while True:
            end, found = next_batch(reader, start, limit)
            if end == start:
                break
            batches.append(found)
            start = end
        assert sorted(place for batch in batches for place in batch) == [
            (partition, offset) for partition in range(2) for offset in range(100)
        ]
        assert max(sum(one == 0 for one, _ in batch) for batch in batches) <= 12
        assert len(batches) <= 20
        assert len(next_batch(both, both.initialOffset(), both.getDefaultReadLimit())[1]) == 6
        assert len(next_batch(reader, reader.initialOffset())[1]) == 200  # if Spark wants all
    finally:
        reader.stop()
        both.stop()


def test_sizes_that_a_broker_does_not_tell_are_told_in_one_line(tmp_path: Path) -> None:
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }
    node = ServedNode(data=tmp_path / "node", settings=settings)
    node.start()
    client = ConfluentClient(node.bootstrap)
    try:
        client.create_topic("t")
        client.produce("t", numbered(5, 0))
        denied = AclBinding(
            ResourceType.BROKER,
            "kafka-cluster",
            ResourcePatternType.LITERAL,
            "User:ANONYMOUS",
            "*",
            AclOperation.DESCRIBE,
            AclPermissionType.DENY,
        )
        admin = AdminClient({"bootstrap.servers": node.bootstrap})
        for done in admin.create_acls([denied]).values():
            done.result()
        told = {"subscribe": "t", "maxBytesPerTrigger": "1k"}
        reader = stream_reader(node.bootstrap, **told)
        with pytest.raises(SizesRefused, match="allow DESCRIBE on the cluster") as error:
            reader.latestOffset({"t": {"0": 0}}, reader.getDefaultReadLimit())
        assert "\n" not in str(error.value)
        reader.stop()
    finally:
        client.close()
        node.stop()


def test_checkpoints_of_others_and_places_that_are_not_there_are_told(
    node: ServedNode, confluent: ConfluentClient, topic: Callable[..., str]
) -> None:
    name = topic()
    reader = stream_reader(node.bootstrap, subscribe=name)
    try:
        with pytest.raises(DataLoss, match="offsets of others, which this query does not read"):
            reader.latestOffset({"others": {"0": 3}}, EVERYTHING)
        rates: Any = {"offset": 3}
        with pytest.raises(ForeignCheckpoint, match="written by another source"):
            reader.latestOffset(rates, EVERYTHING)
        told = f'{{"{name}": {{"0": 1000}}}}'
        ahead = stream_reader(node.bootstrap, subscribe=name, startingOffsets=told)
        with pytest.raises(DataLoss, match="was to be read from offset 1000 and ends at 0"):
            ahead.initialOffset()
        ahead.stop()
        missing = stream_reader(node.bootstrap, subscribe="nowhere")
        with pytest.raises(BadPosition, match="topic nowhere does not exist"):
            missing.initialOffset()
        missing.stop()
    finally:
        reader.stop()
