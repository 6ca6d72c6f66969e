"""The high watermark of a leader with followers: what counts, from when, and what holds it."""

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId
from penstock.model.offset import LeaderEpoch
from penstock.model.settings.topic import TopicSettings
from rig.produced import NOW_MS
from rig.replicas import LAG_MS_MAX, ONE, THREE, TWO, append, change, confirm, fetched, lead, tell

LATER_MS = NOW_MS + LAG_MS_MAX + 1


def test_the_least_end_of_the_in_sync_set_counts() -> None:
    leader = lead()
    append(leader, 10)
    fetched(leader, TWO, 7)
    assert leader.high_watermark == 0  # of the third nothing is known
    fetched(leader, THREE, 4)
    assert leader.high_watermark == 4
    fetched(leader, THREE, 10)
    assert leader.high_watermark == 7


def test_a_follower_that_is_not_in_sync_holds_nothing_back() -> None:
    leader = lead(in_sync=(ONE, TWO))
    append(leader, 10)
    fetched(leader, TWO, 10)
    fetched(leader, THREE, 2)
    assert leader.high_watermark == 10


def test_a_new_leader_starts_from_the_watermark_that_it_knew() -> None:
    before = lead(in_sync=(ONE,))
    append(before, 10)
    leader = lead(before.log, epoch=2, high_watermark=6)
    assert (leader.high_watermark, leader.epoch_start_offset) == (6, 10)
    fetched(leader, TWO, 3)
    fetched(leader, THREE, 10)
    assert leader.high_watermark == 6  # it does not go back
    fetched(leader, TWO, 8)
    assert leader.high_watermark == 8


def test_a_watermark_beyond_the_log_is_that_of_records_which_were_lost() -> None:
    before = lead(in_sync=(ONE,))
    append(before, 4)
    assert lead(before.log, epoch=2, high_watermark=9).high_watermark == 4


def test_ends_of_an_older_leader_epoch_are_not_known() -> None:
    leader = lead()
    append(leader, 5)
    fetched(leader, TWO, 5)
    leader.change_replicas(
        leader_epoch=LeaderEpoch(2),
        partition_epoch=1,
        replicas=(ONE, TWO, THREE),
        in_sync=(ONE, TWO, THREE),
        now_ms=NOW_MS,
    )
    fetched(leader, THREE, 5)
    assert leader.high_watermark == 0
    fetched(leader, TWO, 5)
    assert leader.high_watermark == 5


def test_below_min_insync_replicas_it_stands_still() -> None:
    leader = lead(in_sync=(ONE,), min_insync_replicas=2)
    append(leader, 3)
    assert leader.high_watermark == 0
    leader.reconfigure(TopicSettings(min_insync_replicas=1))
    assert leader.high_watermark == 3
    leader.check()


def test_more_replicas_than_there_are_cannot_be_asked_for() -> None:
    leader = lead(replicas=(ONE, TWO), in_sync=(ONE, TWO), min_insync_replicas=3)
    append(leader, 3)
    fetched(leader, TWO, 3)
    assert leader.high_watermark == 3
    assert leader.refuse_all_acks() is None


def test_replicas_that_are_being_copied_are_not_asked_for() -> None:
    """A partition of one replica is moved: it is written to all the time, until the new replica is
    in sync, and then by the number of replicas that the metadata have.
    """
    leader = lead(replicas=(ONE,), in_sync=(ONE,), min_insync_replicas=2)
    append(leader, 3)
    leader.change_replicas(
        leader_epoch=LeaderEpoch(1),
        partition_epoch=1,
        replicas=(TWO, ONE),
        replica_count=1,
        in_sync=(ONE,),
        now_ms=NOW_MS,
    )
    append(leader, 2)
    assert leader.high_watermark == 5
    assert leader.refuse_all_acks() is None
    fetched(leader, TWO, 5)
    asked = change(leader)
    assert asked is not None
    confirm(leader, asked)
    assert leader.followers.replica_count == 1
    leader.change_replicas(
        leader_epoch=LeaderEpoch(2),
        partition_epoch=3,
        replicas=(ONE, TWO, THREE),
        in_sync=(ONE,),
        now_ms=NOW_MS,
    )
    assert leader.refuse_all_acks() is not None


def test_a_follower_that_is_to_join_counts_before_the_controller_knows() -> None:
    leader = lead(in_sync=(ONE, TWO))
    append(leader, 5)
    fetched(leader, TWO, 5)
    fetched(leader, THREE, 5)
    assert change(leader) is not None
    append(leader, 5)
    fetched(leader, TWO, 10)
    assert leader.high_watermark == 5  # whatever the controller has stored by now
    fetched(leader, THREE, 10)
    assert leader.high_watermark == 10


def test_a_shrink_counts_when_the_metadata_have_it() -> None:
    leader = lead()
    append(leader, 5)
    fetched(leader, TWO, 5, now_ms=LATER_MS)
    asked = change(leader, now_ms=LATER_MS)
    assert asked is not None
    assert [node for node, _ in asked.members] == [ONE, TWO]
    assert not confirm(leader, asked)
    assert leader.high_watermark == 0
    tell(leader, asked)
    assert leader.high_watermark == 5


def test_a_shrink_does_not_overtake_the_setting_by_which_the_controller_judged_it() -> None:
    """It asks for two replicas by now, and keeps the one that leaves eligible; this leader, which
    still knows of one, must not commit alone what that one lacks.
    """
    leader = lead(replicas=(ONE, TWO), in_sync=(ONE, TWO), min_insync_replicas=1)
    append(leader, 5)
    asked = change(leader, now_ms=LATER_MS)
    assert asked is not None
    confirm(leader, asked)
    assert leader.high_watermark == 0
    leader.reconfigure(TopicSettings(min_insync_replicas=2))
    tell(leader, asked)
    assert leader.high_watermark == 0


def test_the_present_set_is_judged_for_min_insync_replicas_not_the_one_asked_for() -> None:
    leader = lead(in_sync=(ONE,), min_insync_replicas=2)
    append(leader, 5)
    fetched(leader, TWO, 5)
    asked = change(leader)
    assert asked is not None
    refusal = leader.refuse_all_acks()
    assert refusal is not None
    assert refusal.code is ErrorCode.NOT_ENOUGH_REPLICAS
    assert leader.high_watermark == 0
    confirm(leader, asked)
    assert leader.refuse_all_acks() is None
    assert leader.high_watermark == 5


def test_an_end_beyond_the_leaders_own_tells_nothing() -> None:
    leader = lead(replicas=(ONE, TWO), in_sync=(ONE, TWO))
    append(leader, 5)
    fetched(leader, TWO, 50)
    assert leader.high_watermark == 0


def test_a_leader_counts_its_own_end_when_it_is_synced_where_acks_wait_for_that() -> None:
    leader = lead(replicas=(ONE, TWO), in_sync=(ONE, TWO), penstock_ack_fsync=True)
    append(leader, 5)
    fetched(leader, TWO, 5)
    assert (leader.high_watermark, leader.wants_sync) == (0, True)
    leader.log.sync()
    leader.synced()
    assert (leader.high_watermark, leader.wants_sync) == (5, False)


def test_a_leader_that_starts_syncs_its_log_before_it_counts_it() -> None:
    before = lead(in_sync=(ONE,), replicas=(ONE,))
    append(before, 5)
    before.end()
    before.log.reconfigure(TopicSettings(penstock_ack_fsync=True))
    leader = lead(before.log, replicas=(ONE, TWO), in_sync=(ONE, TWO), epoch=2, high_watermark=2)
    fetched(leader, TWO, 5)
    assert (leader.high_watermark, leader.wants_sync) == (2, True)
    leader.log.sync()
    leader.synced()
    assert leader.high_watermark == 5


Step = tuple[str, int, int]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["append", "fetch", "change", "confirm", "refuse", "epoch", "metadata"]),
        st.integers(0, 2),
        st.integers(0, 12),
    ),
    max_size=40,
)


@settings(max_examples=200, deadline=None)
@given(STEPS)
def test_whatever_happens_every_set_the_controller_may_have_stored_has_what_is_committed(
    steps: list[Step],
) -> None:
    """Above the watermark at the start of each epoch, the log is committed only if every replica
    of the stored in-sync set has told in this epoch that it has it.
    """
    leader = lead(in_sync=(ONE, TWO), min_insync_replicas=2)
    told: dict[NodeId, int] = {}
    stored = {ONE, TWO}  # as the controller has it
    in_flight = None
    before = 0
    now_ms = NOW_MS
    for kind, who, number in steps:
        node = (TWO, THREE)[who % 2]
        now_ms += number * 4_000
        if kind == "append":
            append(leader, 1 + number)
        elif kind == "fetch":
            offset = max(told.get(node, 0), leader.log.end_offset - number)
            told[node] = offset
            fetched(leader, node, offset, now_ms=now_ms)
        elif kind == "change":
            asked = change(leader, now_ms=now_ms)
            if asked is not None:
                in_flight = asked
                if who:  # the controller makes it; its answer comes later, or never
                    stored = {one for one, _ in asked.members}
        elif kind == "confirm" and in_flight is not None:
            stored = {one for one, _ in in_flight.members}
            if leader.followers.pending is in_flight and not confirm(leader, in_flight):
                tell(leader, in_flight)
            in_flight = None
        elif kind == "refuse" and in_flight is not None and not who:
            if stored == leader.followers.in_sync:
                leader.in_sync_refused(in_flight, ErrorCode.OPERATION_NOT_ATTEMPTED)
                in_flight = None
        elif kind in ("epoch", "metadata"):
            is_new_epoch = kind == "epoch"
            leader.change_replicas(
                leader_epoch=LeaderEpoch(leader.leader_epoch + is_new_epoch),
                partition_epoch=leader.partition_epoch + 1,
                replicas=(ONE, TWO, THREE),
                in_sync=tuple(stored),
                now_ms=now_ms,
            )
            in_flight = None
            if is_new_epoch:
                told.clear()
        leader.check()
        assert leader.high_watermark >= before
        if leader.high_watermark > before:
            assert all(told.get(one, 0) >= leader.high_watermark for one in stored - {ONE})
            assert len(leader.followers.in_sync) >= 2
        before = leader.high_watermark
