"""A producer's own trace is found in the first record of a batch, and no bytes do harm."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.records.build import build_batch
from penstock.records.compression import Codec
from penstock.records.record import Headers, Record
from penstock.tracing.batch_trace import BatchTrace, trace_of
from penstock.tracing.traceparent import HEADERS_MAX, parse_traceparent, traceparent_of

TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
SPAN_ID = "b7ad6b7169203331"
GOOD = f"00-{TRACE_ID}-{SPAN_ID}-01".encode()
NAMED: Headers = (("traceparent", GOOD),)


def batch(*headers: Headers, value: bytes | None = b"v", codec: Codec = Codec.NONE) -> memoryview:
    """A record with each of these."""
    records = [Record(b"key", value, one, timestamp_ms=1) for one in headers]
    return memoryview(build_batch(records, codec=codec))


def test_a_header_names_trace_and_parent() -> None:
    found = parse_traceparent(GOOD)
    assert found is not None
    assert found.trace_id.hex() == TRACE_ID
    assert found.span_id.hex() == SPAN_ID
    assert found.is_sampled


@pytest.mark.parametrize(
    ("flags", "is_sampled"), [("00", False), ("01", True), ("02", False), ("ff", True)]
)
def test_flags_say_whether_it_is_sampled(flags: str, is_sampled: bool) -> None:
    found = parse_traceparent(f"00-{TRACE_ID}-{SPAN_ID}-{flags}".encode())
    assert found is not None
    assert found.is_sampled is is_sampled


@pytest.mark.parametrize(
    "value",
    [
        "",
        "00",
        f"00-{TRACE_ID}-{SPAN_ID}",
        f"00-{TRACE_ID}-{SPAN_ID}-01-more",
        f"00-{TRACE_ID}-{SPAN_ID}-1",
        f"ff-{TRACE_ID}-{SPAN_ID}-01",
        f"00-{TRACE_ID.upper()}-{SPAN_ID}-01",
        f"00-{'0' * 32}-{SPAN_ID}-01",
        f"00-{TRACE_ID}-{'0' * 16}-01",
        f"00-{TRACE_ID}-{SPAN_ID}-01\n",
        f"01-{TRACE_ID}-{SPAN_ID}-01more",
    ],
)
def test_what_is_no_traceparent_says_nothing(value: str) -> None:
    assert parse_traceparent(value.encode()) is None
    assert traceparent_of(batch((("traceparent", value.encode()),))) is None


def test_a_later_version_may_have_more() -> None:
    assert parse_traceparent(f"cc-{TRACE_ID}-{SPAN_ID}-01-more".encode()) is not None


def test_it_is_found_among_other_headers_behind_any_value() -> None:
    for headers in (
        NAMED,
        (("a", None), ("traceparents", b"x"), *NAMED, ("b", b"2")),
        (("x" * 300, b"y" * 1_000), *NAMED),
    ):
        for value in (None, b"", b"v" * 100_000):
            found = traceparent_of(batch(headers, value=value))
            assert found is not None
            assert found.trace_id.hex() == TRACE_ID


@pytest.mark.parametrize(
    "quiet",
    [
        batch(()),
        batch((), NAMED),  # the second record
        batch(NAMED, codec=Codec.GZIP),
        batch((("traceparent", None),)),
        batch((*((f"h{one}", b"") for one in range(HEADERS_MAX)), *NAMED)),
    ],
    ids=["none", "second record", "compressed", "null", "too far back"],
)
def test_where_it_is_not_looked_for(quiet: memoryview) -> None:
    assert traceparent_of(quiet) is None


@given(st.data())
def test_no_bytes_do_harm(data: st.DataObject) -> None:
    whole = bytearray(batch((("a", b"1"), *NAMED)))
    for _ in range(data.draw(st.integers(0, 5))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    traceparent_of(memoryview(whole)[: data.draw(st.integers(0, len(whole)))])


@given(st.binary(max_size=300))
def test_nor_do_any_records(payload: bytes) -> None:
    traceparent_of(memoryview(bytes(batch(())[:61]) + payload))


def trace(data: memoryview, **changed: int) -> BatchTrace | None:
    place = {"partition": 1, "base_offset": 7, "leader_epoch": 3, **changed}
    return trace_of(data, topic_id=bytes(range(16)), **place)


def test_a_batch_is_of_the_trace_that_its_producer_names() -> None:
    found = trace(batch(NAMED))
    assert found is not None and found.parent_id is not None
    assert (found.trace_id.hex(), found.parent_id.hex()) == (TRACE_ID, SPAN_ID)


def test_other_batches_have_traces_of_their_own_that_every_node_knows() -> None:
    found, again = trace(batch(())), trace(batch(()))
    assert found is not None and again is not None
    assert found.parent_id is None
    assert len(found.trace_id) == 16
    assert (found.trace_id, found.produce_id) == (again.trace_id, again.produce_id)
    others = [
        trace(batch(()), **{name: 8}) for name in ("partition", "base_offset", "leader_epoch")
    ]
    ids = {one.trace_id for one in (found, *others) if one is not None}
    assert len(ids) == 4


def test_spans_of_one_batch_have_ids_of_their_own() -> None:
    found = trace(batch(()))
    assert found is not None
    names = ("produce", "queue", "append", "replicas", "send", "replicate 1", "replicate 2")
    assert len({found.span_id(name) for name in names}) == len(names)
    assert found.produce_id == found.span_id("produce")


def test_a_trace_that_its_producer_does_not_sample_gets_no_spans() -> None:
    unsampled = GOOD[:-2] + b"00"
    assert trace(batch((("traceparent", unsampled),))) is None
