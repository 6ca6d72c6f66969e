"""Acks wait in a queue: told once, in order, and nothing stays of those that gave up."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.model.error import ErrorCode
from penstock.model.offset import LeaderEpoch, Offset
from penstock.model.settings.topic import TopicSettings
from penstock.replication.ack_queue import DISCARDED_MAX, AckQueue
from rig.produced import NOW_MS
from rig.replicas import (
    LAG_MS_MAX,
    ONE,
    THREE,
    TWO,
    Slot,
    append,
    change,
    fetched,
    lead,
    tell,
)


def test_acks_are_told_in_order_when_the_watermark_reaches_them() -> None:
    leader = lead(replicas=(ONE, TWO), in_sync=(ONE, TWO))
    slots = [Slot() for _ in range(3)]
    for slot in slots:
        leader.acks.add(append(leader, 2, all_acks=True), slot)
    fetched(leader, TWO, 4)
    assert [slot.codes for slot in slots] == [[ErrorCode.NONE], [ErrorCode.NONE], []]
    fetched(leader, TWO, 6)
    assert slots[2].codes == [ErrorCode.NONE]
    assert len(leader.acks) == 0


def test_the_ack_of_a_retried_batch_waits_for_what_came_after_it() -> None:
    queue = AckQueue()
    later, retried = Slot(), Slot()
    queue.add(Offset(10), later)
    queue.add(Offset(3), retried)
    queue.check()
    queue.release(Offset(5), ErrorCode.NONE)
    assert (later.codes, retried.codes) == ([], [])
    queue.release(Offset(10), ErrorCode.NONE)
    assert (later.codes, retried.codes) == ([ErrorCode.NONE], [ErrorCode.NONE])


def test_acks_are_told_when_the_in_sync_set_falls_below_the_minimum() -> None:
    leader = lead(replicas=(ONE, TWO), in_sync=(ONE, TWO), min_insync_replicas=2)
    slot = Slot()
    leader.acks.add(append(leader, all_acks=True), slot)
    asked = change(leader, now_ms=NOW_MS + LAG_MS_MAX + 1)
    assert asked is not None
    assert slot.codes == []  # nothing is certain before the controller has answered
    tell(leader, asked)
    assert slot.codes == [ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND]


def test_acks_are_told_when_the_setting_asks_for_more_replicas() -> None:
    leader = lead(in_sync=(ONE, TWO), min_insync_replicas=2)
    slot = Slot()
    leader.acks.add(append(leader, all_acks=True), slot)
    leader.reconfigure(TopicSettings(min_insync_replicas=3))
    assert slot.codes == [ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND]


def test_a_confirmed_shrink_releases_what_only_the_others_lacked() -> None:
    leader = lead()
    slot = Slot()
    leader.acks.add(append(leader, all_acks=True), slot)
    later_ms = NOW_MS + LAG_MS_MAX + 1
    fetched(leader, TWO, 1, now_ms=later_ms)
    asked = change(leader, now_ms=later_ms)
    assert asked is not None
    tell(leader, asked)
    assert slot.codes == [ErrorCode.NONE]


def test_a_shrink_to_the_leader_alone_releases_acks() -> None:
    leader = lead(replicas=(ONE, TWO), in_sync=(ONE, TWO))
    slot = Slot()
    leader.acks.add(append(leader, all_acks=True), slot)
    asked = change(leader, now_ms=NOW_MS + LAG_MS_MAX + 1)
    assert asked is not None
    tell(leader, asked)
    assert leader.commits_at_once
    assert slot.codes == [ErrorCode.NONE]


def test_the_end_of_leadership_is_told_to_every_ack() -> None:
    leader = lead()
    slots = [Slot(), Slot()]
    for slot in slots:
        leader.acks.add(append(leader, all_acks=True), slot)
    leader.end()
    leader.check()
    assert [slot.codes for slot in slots] == [[ErrorCode.NOT_LEADER_OR_FOLLOWER]] * 2


def test_a_failed_disk_is_told_to_every_ack() -> None:
    leader = lead()
    slot = Slot()
    leader.acks.add(append(leader, all_acks=True), slot)
    leader.end(offline=True)
    assert slot.codes == [ErrorCode.KAFKA_STORAGE_ERROR]


def test_a_new_epoch_of_the_same_leader_goes_on_with_the_acks() -> None:
    leader = lead()
    slot = Slot()
    leader.acks.add(append(leader, all_acks=True), slot)
    leader.change_replicas(
        leader_epoch=LeaderEpoch(2),
        partition_epoch=1,
        replicas=(ONE, TWO, THREE),
        in_sync=(ONE, TWO, THREE),
        now_ms=NOW_MS,
    )
    assert slot.codes == []
    fetched(leader, TWO, 1)
    fetched(leader, THREE, 1)
    assert slot.codes == [ErrorCode.NONE]


def test_the_leaders_own_acks_wait_for_its_sync_alone() -> None:
    leader = lead(penstock_ack_fsync=True)
    own, all_ = Slot(), Slot()
    end_offset = append(leader)
    leader.leader_acks.add(end_offset, own)
    leader.acks.add(end_offset, all_)
    leader.log.sync()
    leader.synced()
    assert (own.codes, all_.codes) == ([ErrorCode.NONE], [])


def test_acks_go_on_when_syncs_are_no_longer_asked_for() -> None:
    leader = lead(replicas=(ONE,), in_sync=(ONE,), penstock_ack_fsync=True)
    own, all_ = Slot(), Slot()
    end_offset = append(leader)
    leader.leader_acks.add(end_offset, own)
    leader.acks.add(end_offset, all_)
    leader.reconfigure(TopicSettings())
    assert (own.codes, all_.codes) == ([ErrorCode.NONE], [ErrorCode.NONE])


def test_a_discarded_ack_is_not_told() -> None:
    queue = AckQueue()
    first, second = Slot(), Slot()
    given_up = queue.add(Offset(1), first)
    queue.add(Offset(2), second)
    queue.discard(given_up)
    queue.discard(given_up)
    queue.check()
    queue.release(Offset(2), ErrorCode.NONE)
    assert (first.codes, second.codes) == ([], [ErrorCode.NONE])


def test_nothing_grows_when_all_but_the_first_give_up() -> None:
    """The watermark stands still: a patient client is in front, impatient ones come and go."""
    queue = AckQueue()
    queue.add(Offset(1), Slot())
    for offset in range(2, 5_000):
        queue.discard(queue.add(Offset(offset), Slot()))
        queue.check()
    assert len(queue) == 1
    assert queue._waiting is not None
    assert len(queue._waiting) <= DISCARDED_MAX + 2


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("add"), st.integers(1, 20)),
            st.tuples(st.just("discard"), st.integers(0, 20)),
            st.tuples(st.just("release"), st.integers(0, 25)),
        ),
        max_size=60,
    )
)
def test_every_ack_is_told_once_and_not_before_its_offset(steps: list[tuple[str, int]]) -> None:
    queue = AckQueue()
    waiting: list[tuple[int, Slot, object]] = []
    released = 0
    for kind, number in steps:
        if kind == "add" and number > released:
            slot = Slot()
            waiting.append((number, slot, queue.add(Offset(number), slot)))
        elif kind == "discard" and number < len(waiting):
            offset, slot, pending = waiting.pop(number)
            was_told = len(slot.codes)
            queue.discard(pending)  # type: ignore[arg-type]
            queue.release(Offset(released), ErrorCode.NONE)
            assert len(slot.codes) == was_told
        elif kind == "release":
            released = max(released, number)
            queue.release(Offset(released), ErrorCode.NONE)
        queue.check()
        for offset, slot, _ in waiting:
            assert len(slot.codes) <= 1
            assert not slot.codes or offset <= released
    queue.release_all(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert all(len(slot.codes) == 1 for _, slot, _ in waiting)
    assert len(queue) == 0
