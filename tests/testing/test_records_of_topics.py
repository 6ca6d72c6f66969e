"""`produce` and `records`: what a test puts into a topic, and what it finds there."""

import threading

import confluent_kafka
import pytest

from penstock.testing import Broker, ErrorCode, Refused, TimedOut


def test_values_keys_and_text(penstock: Broker) -> None:
    penstock.produce("orders", ["one", b"two", ("k", "three"), (b"k", None)])
    found = penstock.records("orders")
    assert [(record.key, record.value) for record in found] == [
        (None, b"one"),
        (None, b"two"),
        (b"k", b"three"),
        (b"k", None),
    ]
    assert [record.offset for record in found] == [0, 1, 2, 3]


def test_partition_headers_and_timestamp(penstock: Broker) -> None:
    topic = penstock.topic(partitions=3)
    penstock.produce(topic, ["b"], partition=2, headers={"trace": "1"}, timestamp_ms=1_700)
    penstock.produce(topic, ["a"], partition=0)
    first, second = penstock.records(topic)
    assert (first.partition, first.value) == (0, b"a")
    assert (second.partition, second.timestamp_ms, second.headers) == (2, 1_700, (("trace", b"1"),))


def test_more_records_than_one_fetch_brings_are_all_found(penstock: Broker) -> None:
    topic = penstock.topic(partitions=2)
    penstock.produce(topic, [str(number) for number in range(3_000)])
    numbers = {int(record.value or b"") for record in penstock.records(topic)}
    assert numbers == set(range(3_000))


def test_empty_topic_has_none_and_an_unknown_one_is_refused_and_not_created(
    penstock: Broker,
) -> None:
    assert penstock.records(penstock.topic()) == []
    for _ in range(2):
        with pytest.raises(Refused, match="unknown: there is no such topic") as refused:
            penstock.records("unknown")
        assert refused.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_it_waits_for_records_that_are_still_to_come(penstock: Broker) -> None:
    def produce_later() -> None:
        producer = confluent_kafka.Producer({"bootstrap.servers": penstock.bootstrap})
        for value in ("one", "two", "three"):
            producer.produce("late", value)
            producer.flush(60)

    thread = threading.Thread(target=produce_later)
    thread.start()
    assert len(penstock.records("late", at_least=3)) == 3
    thread.join()


def test_records_that_do_not_come_are_counted(penstock: Broker) -> None:
    penstock.produce("orders", ["one"])
    with pytest.raises(TimedOut, match=r"orders: 1 of 2 records within 0\.5 s"):
        penstock.records("orders", at_least=2, within_seconds=0.5)


def test_read_committed_leaves_out_open_and_aborted_transactions(penstock: Broker) -> None:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": penstock.bootstrap, "transactional.id": "t"}
    )
    producer.init_transactions(60)
    for value, end in (
        ("aborted", producer.abort_transaction),
        ("committed", producer.commit_transaction),
        ("open", lambda: None),
    ):
        producer.begin_transaction()
        producer.produce("orders", value)
        producer.flush(60)
        end()

    def values(*, read_committed: bool) -> list[bytes | None]:
        found = penstock.records("orders", read_committed=read_committed)
        return [record.value for record in found]

    assert values(read_committed=False) == [b"aborted", b"committed", b"open"]
    assert values(read_committed=True) == [b"committed"]
    producer.abort_transaction(60)
    assert values(read_committed=True) == [b"committed"]  # the log ends with a marker


@pytest.mark.parametrize("wrong", ["one", b"one", [1], [("k", "v", "h")], [("k", 1)], [None]])
def test_what_is_no_list_of_records_is_refused_in_words(penstock: Broker, wrong: object) -> None:
    with pytest.raises(TypeError, match=r"records are a list|a record is|keys and values are"):
        penstock.produce("orders", wrong)  # type: ignore[arg-type]  # that is the point


def test_refused_record_is_an_error(penstock: Broker) -> None:
    topic = penstock.topic(max_message_bytes=200)
    with pytest.raises(Refused) as refused:
        penstock.produce(topic, ["x" * 1_000])
    assert refused.value.code == ErrorCode.MESSAGE_TOO_LARGE
