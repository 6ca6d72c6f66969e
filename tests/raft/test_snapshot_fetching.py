"""A follower whose next record the leader has no more fetches a snapshot, in parts."""

from penstock.model.identity import NodeId
from penstock.model.offset import LeaderEpoch, Offset
from penstock.raft.effects import Committed, InstallSnapshot, StoreSnapshotPart
from penstock.raft.log_ends import SnapshotId
from penstock.raft.messages import (
    FetchReply,
    FetchRequest,
    FetchSnapshotReply,
    FetchSnapshotRequest,
    Refused,
)
from rig.replica import (
    Lone,
    all_of,
    end,
    fetch,
    fetched,
    follower,
    leader,
    log_of,
    requests,
)

SNAPSHOT = SnapshotId(Offset(40), LeaderEpoch(3))


def fetching_snapshot() -> Lone:
    two = follower(2, epoch=5)
    (send,) = requests(two.effects, FetchRequest)
    reply = fetched(5, 1, watermark=60)
    reply.snapshot = SNAPSHOT
    two.reply_to(send, reply)
    return two


def part(position: int, length: int, *, size: int = 30) -> FetchSnapshotReply:
    return FetchSnapshotReply(
        epoch=LeaderEpoch(5),
        leader_id=NodeId(1),
        snapshot=SNAPSHOT,
        size=size,
        position=position,
        length=length,
    )


def position_asked(two: Lone) -> int:
    (send,) = requests(two.effects, FetchSnapshotRequest)
    assert isinstance(send.request, FetchSnapshotRequest)
    return send.request.position


def answer(two: Lone, reply: FetchSnapshotReply) -> None:
    (send,) = requests(two.effects, FetchSnapshotRequest)
    two.reply_to(send, reply)


def test_snapshot_is_installed_after_its_last_part() -> None:
    two = fetching_snapshot()
    answer(two, part(0, 20))
    assert all_of(two.effects, InstallSnapshot) == []
    assert position_asked(two) == 20
    answer(two, part(20, 10))
    kinds = [type(one) for one in two.effects[:3]]
    assert kinds == [StoreSnapshotPart, InstallSnapshot, Committed]
    (send,) = requests(two.effects, FetchRequest)
    assert isinstance(send.request, FetchRequest)
    assert send.request.log_end == end(3, 40)  # the snapshot's epoch is the first of the log
    assert two.replica.high_watermark == 40


def test_snapshot_that_the_leader_has_deleted_is_begun_anew() -> None:
    two = fetching_snapshot()
    answer(two, part(0, 20))
    missing = part(20, 0)
    missing.error = Refused.SNAPSHOT_NOT_FOUND
    answer(two, missing)
    two.wait_until_due()
    (send,) = requests(two.effects, FetchRequest)
    reply = fetched(5, 1)
    reply.snapshot = SnapshotId(Offset(50), LeaderEpoch(4))
    two.reply_to(send, reply)
    assert position_asked(two) == 0


def test_part_from_another_position_is_not_stored() -> None:
    two = fetching_snapshot()
    answer(two, part(10, 10))
    assert all_of(two.effects, StoreSnapshotPart) == []


def test_empty_part_is_not_asked_for_again_at_once() -> None:
    two = fetching_snapshot()
    answer(two, part(0, 0))
    assert requests(two.effects, FetchSnapshotRequest) == []


def test_snapshot_of_what_is_committed_already_is_not_installed() -> None:
    two = follower(2, epoch=5, log=log_of(*[3] * 45))
    (send,) = requests(two.effects, FetchRequest)
    two.reply_to(send, fetched(5, 1, watermark=45))
    (send,) = requests(two.effects, FetchRequest)
    reply = fetched(5, 1, watermark=45)
    reply.snapshot = SNAPSHOT
    two.reply_to(send, reply)
    answer(two, part(0, 30))
    assert all_of(two.effects, InstallSnapshot) == []
    assert two.replica.state.log.end_offset == 45


def test_leader_offers_its_snapshot_to_a_log_that_ends_before_its_own_begins() -> None:
    one = leader(1, epoch=3, log=log_of(1, 1, 3))
    one.sync()
    one.receive(fetch(4, 2, end(4, 4)))
    snapshot = SnapshotId(Offset(3), LeaderEpoch(3))
    one.replica.made_snapshot(snapshot)
    one.replica.trim(Offset(3))
    for at in (end(0, 0), end(1, 2), end(2, 3)):  # the last one is of an epoch that was lost
        reply = one.ask(fetch(4, 3, at))
        assert isinstance(reply, FetchReply)
        assert reply.snapshot == snapshot
    reply = one.ask(fetch(4, 3, end(3, 3)))
    assert isinstance(reply, FetchReply)
    assert reply.snapshot is None
