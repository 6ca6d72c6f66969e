"""A broker takes itself for unfenced no longer than the controller does."""

from penstock.broker.controller.broker_lease import BrokerLease


class Metadata:
    """How far it has come."""

    def __init__(self) -> None:
        self.offset = 0

    def __call__(self) -> int:
        return self.offset


def test_a_lease_begins_with_an_acknowledged_heartbeat() -> None:
    lease = BrokerLease(timeout_ms=3_000)
    assert not lease.is_valid(0)
    lease.acknowledged(sent_ms=0, metadata_offset=-1)
    assert lease.is_valid(0)


def test_a_lease_lasts_for_a_session_after_its_heartbeat_was_sent() -> None:
    lease = BrokerLease(timeout_ms=3_000)
    lease.acknowledged(sent_ms=500, metadata_offset=-1)
    assert lease.is_valid(3_499)
    assert not lease.is_valid(3_500)
    lease.acknowledged(sent_ms=4_000, metadata_offset=-1)
    assert lease.is_valid(6_999)


def test_a_late_acknowledgement_of_an_earlier_heartbeat_shortens_no_lease() -> None:
    lease = BrokerLease(timeout_ms=3_000)
    lease.acknowledged(sent_ms=1_000, metadata_offset=-1)
    lease.acknowledged(sent_ms=500, metadata_offset=-1)
    assert lease.is_valid(3_999)


def test_an_acknowledgement_counts_once_the_metadata_has_come_as_far() -> None:
    metadata = Metadata()
    lease = BrokerLease(timeout_ms=3_000, metadata_offset=metadata)
    lease.acknowledged(sent_ms=0, metadata_offset=7)
    metadata.offset = 6
    assert not lease.is_valid(1)
    metadata.offset = 7
    assert lease.is_valid(1)


def test_metadata_that_lag_behind_each_heartbeat_leave_no_gap() -> None:
    metadata = Metadata()
    lease = BrokerLease(timeout_ms=3_000, metadata_offset=metadata)
    for beat in range(1, 6):
        lease.acknowledged(sent_ms=beat * 2_000, metadata_offset=beat)
        metadata.offset = beat
    assert lease.is_valid(12_999)
    assert not lease.is_valid(13_000)


def test_a_lease_ends_when_the_controller_says_that_the_broker_is_fenced() -> None:
    metadata = Metadata()
    lease = BrokerLease(timeout_ms=3_000, metadata_offset=metadata)
    lease.acknowledged(sent_ms=0, metadata_offset=0)
    lease.acknowledged(sent_ms=10, metadata_offset=5)
    lease.fenced()
    metadata.offset = 5
    assert not lease.is_valid(20)


def test_a_broker_that_only_its_own_process_could_fence_needs_no_heartbeat() -> None:
    lease = BrokerLease(timeout_ms=None)
    assert lease.is_valid(1 << 50)
    lease.fenced()
    assert lease.is_valid(1 << 50)


def test_the_only_voter_needs_no_heartbeat_until_others_vote() -> None:
    is_alone = [True]
    lease = BrokerLease(timeout_ms=3_000, is_own_controller=lambda: is_alone[-1])
    assert lease.is_valid(0)
    lease.acknowledged(sent_ms=1_000, metadata_offset=-1)
    assert lease.is_valid(9_000)
    is_alone.append(False)
    assert lease.is_valid(3_999)
    assert not lease.is_valid(9_000)
