"""What the coordinator journals is read back as it was, and is in the form that Kafka gives it."""

import contextlib
import struct

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.model.identity import ProducerEpoch, ProducerId
from penstock.transactions.records import (
    TransactionStored,
    UnreadableTransactionRecord,
    decode,
    encode,
    stored,
)
from penstock.transactions.state import Transaction, TransactionState
from penstock.wire import codec
from penstock.wire.messages.coordinator_records.transaction_log import (
    PartitionsSchema,
    TransactionLogValue,
)
from rig.transactions import identity, partitions

S = TransactionState
KEY = b"\0\0\0\1t"


def transaction(**changes: object) -> Transaction:
    values: dict[str, object] = {
        "transactional_id": "t",
        "producer_id": ProducerId(7),
        "producer_epoch": ProducerEpoch(3),
        "timeout_ms": 60_000,
        "state": S.EMPTY,
        "last_update_ms": 2000,
    }
    return Transaction(**{**values, **changes})  # type: ignore[arg-type]


def value(**fields: object) -> bytes:
    message = TransactionLogValue(producer_id=7, **fields)  # type: ignore[arg-type]
    return struct.pack(">h", 1) + codec.encode(message, 1)


@pytest.mark.parametrize(
    "written",
    [
        transaction(),
        transaction(previous_producer_id=ProducerId(7)),
        transaction(
            state=S.ONGOING,
            partitions=partitions("a-1", "a-2", "b-0"),
            start_ms=1000,
            client_version=2,
            next_identity=identity(7, 5),
        ),
        transaction(
            state=S.PREPARE_COMMIT,
            partitions=partitions("a-1"),
            start_ms=1000,
            next_identity=identity(8, 0),
            previous_producer_id=ProducerId(7),
        ),
        transaction(state=S.COMPLETE_ABORT, start_ms=1000),
    ],
    ids=lambda written: written.state.word,
)
def test_a_transaction_is_read_back_as_it_was(written: Transaction) -> None:
    written.check()
    assert decode(*encode(stored(written))) == stored(written)


def test_a_tombstone_is_a_record_without_value() -> None:
    tombstone = TransactionStored(transactional_id="t", value=None)
    assert encode(tombstone) == (KEY, None)
    assert decode(KEY, None) == tombstone


def test_the_bytes_are_those_that_kafka_writes() -> None:
    """Fields of an Ongoing transaction in the order of TransactionLogValue, version 1."""
    ongoing = transaction(
        state=S.ONGOING, partitions=partitions("ab-1", "ab-2"), start_ms=1000, client_version=2
    )
    key, written = encode(stored(ongoing))
    assert key == KEY
    assert written == b"".join(
        (
            struct.pack(">hqhibb", 1, 7, 3, 60_000, 1, 2),
            b"\x03ab" + b"\x03" + struct.pack(">ii", 1, 2) + b"\0",
            struct.pack(">qq", 2000, 1000),
            b"\x01\x02\x02\x00\x02",  # one tagged field: the client's transaction version
        )
    )


def test_an_empty_transaction_has_no_list_of_partitions() -> None:
    _, written = encode(stored(transaction()))
    assert written is not None
    read = codec.decode_exact(TransactionLogValue, 1, memoryview(written), 2)
    assert read.transaction_partitions is None


def test_values_from_before_the_tagged_fields_are_read() -> None:
    message = TransactionLogValue(
        producer_id=7,
        producer_epoch=3,
        transaction_timeout_ms=60_000,
        transaction_status=S.PREPARE_ABORT,
        transaction_partitions=[PartitionsSchema(topic="b", partition_ids=[1, 0])],
        transaction_last_update_timestamp_ms=2000,
        transaction_start_timestamp_ms=1000,
    )
    read = decode(KEY, struct.pack(">h", 0) + codec.encode(message, 0))
    expected = transaction(
        state=S.PREPARE_ABORT, partitions=partitions("b-0", "b-1"), start_ms=1000
    )
    assert read == stored(expected)


def test_another_producer_id_begins_with_its_first_epoch_where_none_is_stored() -> None:
    read = decode(KEY, value(transaction_status=S.PREPARE_COMMIT, next_producer_id=9))
    assert read is not None and read.value is not None
    assert read.value.identity == identity(9, 0)


def test_kinds_of_record_that_are_not_known_are_passed_over() -> None:
    assert decode(struct.pack(">h", 1) + b"whatever", b"whatever") is None


@pytest.mark.parametrize(
    ("key", "damaged"),
    [
        (b"", None),
        (b"\0\0\0\5t", None),
        (KEY, b""),
        (KEY, b"\0\7"),
        (KEY, value()[:-1]),
        (KEY, value(transaction_status=9)),
        (KEY, value(transaction_status=S.DEAD)),
        (KEY, value(producer_epoch=-1)),
    ],
)
def test_damage_is_told(key: bytes, damaged: bytes | None) -> None:
    with pytest.raises(UnreadableTransactionRecord):
        decode(key, damaged)


@given(key=st.binary(max_size=12), damaged=st.none() | st.binary(max_size=80))
def test_any_bytes_are_read_or_refused(key: bytes, damaged: bytes | None) -> None:
    with contextlib.suppress(UnreadableTransactionRecord):
        found = decode(b"\0\0" + key, damaged)
        assert found is None or decode(*encode(found)) == found


@given(
    st.builds(
        TransactionLogValue,
        producer_id=st.integers(-1, 9),
        previous_producer_id=st.integers(-1, 9),
        next_producer_id=st.integers(-1, 9),
        producer_epoch=st.integers(-1, 2**15 - 1),
        next_producer_epoch=st.integers(-1, 2**15 - 1),
        transaction_timeout_ms=st.integers(-(2**31), 2**31 - 1),
        transaction_status=st.integers(-128, 127),
        transaction_partitions=st.none()
        | st.lists(
            st.builds(
                PartitionsSchema,
                topic=st.sampled_from("ab"),
                partition_ids=st.lists(st.integers(0, 3)),
            )
        ),
        transaction_last_update_timestamp_ms=st.integers(-1, 9),
        transaction_start_timestamp_ms=st.integers(-1, 9),
        client_transaction_version=st.integers(0, 2),
    )
)
@example(
    TransactionLogValue(
        transaction_status=S.ONGOING,
        transaction_last_update_timestamp_ms=-1,
        transaction_start_timestamp_ms=-1,
    )
)
def test_whatever_is_read_keeps_the_invariants(message: TransactionLogValue) -> None:
    written = struct.pack(">h", 1) + codec.encode(message, 1)
    with contextlib.suppress(UnreadableTransactionRecord):
        read = decode(KEY, written)
        assert read is not None and read.value is not None
        read.value.check()
