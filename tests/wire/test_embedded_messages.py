"""Subscriptions and assignments, as the members of a classic group write them for each other."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.wire.embedded import read_embedded, write_embedded
from penstock.wire.errors import MalformedMessage
from penstock.wire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartitions,
)

SUBSCRIPTION = ConsumerProtocolSubscription(
    topics=["orders", "clicks"],
    owned_partitions=[TopicPartitions(topic="orders", partitions=[0, 3])],
    generation_id=7,
    rack_id="a",
)


def test_what_is_written_is_read_again() -> None:
    written = write_embedded(SUBSCRIPTION, version=3)
    assert read_embedded(ConsumerProtocolSubscription, written) == SUBSCRIPTION
    assert written.hex() == (
        "0003"
        "00000002"
        "00066f7264657273"
        "0006636c69636b73"
        "ffffffff"
        "00000001"
        "00066f7264657273"
        "00000002"
        "00000000"
        "00000003"
        "00000007"
        "000161"
    )


def test_newer_version_is_read_as_far_as_it_is_known() -> None:
    newer = b"\x00\x09" + write_embedded(SUBSCRIPTION, version=3)[2:] + b"something new"
    assert read_embedded(ConsumerProtocolSubscription, newer) == SUBSCRIPTION


def test_version_that_lacks_a_field_leaves_it_out() -> None:
    oldest = read_embedded(ConsumerProtocolSubscription, write_embedded(SUBSCRIPTION, version=0))
    assert oldest == ConsumerProtocolSubscription(topics=["orders", "clicks"])


@pytest.mark.parametrize("data", [b"", b"\x00", b"\xff\xff\x00\x00\x00\x00", b"\x00\x00\x00\x00"])
def test_bytes_that_are_no_message_are_malformed(data: bytes) -> None:
    with pytest.raises(MalformedMessage):
        read_embedded(ConsumerProtocolAssignment, data)


@given(data=st.binary(max_size=60))
def test_arbitrary_bytes_are_read_or_malformed(data: bytes) -> None:
    with contextlib.suppress(MalformedMessage):
        read_embedded(ConsumerProtocolSubscription, data)
