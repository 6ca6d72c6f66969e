"""Which follower a consumer is sent to."""

from penstock.model.identity import NodeId
from penstock.model.offset import Offset
from penstock.replication.followers import Followers
from penstock.replication.read_replica import nearer_follower

LEADER = NodeId(1)
RACKS: dict[NodeId, str | None] = {
    LEADER: "a",
    NodeId(2): "b",
    NodeId(3): "b",
    NodeId(4): "c",
    NodeId(5): None,
}
END = Offset(100)


def followers(*, in_sync: tuple[int, ...] = (2, 3, 4, 5), **ends: int) -> Followers:
    """`n2=90`: node 2 has fetched up to offset 90."""
    made = Followers(
        LEADER,
        replicas=list(RACKS),
        in_sync=[LEADER, *map(NodeId, in_sync)],
        in_sync_min=1,
        epoch_start_offset=Offset(0),
        recovering=False,
        now_ms=0,
    )
    for name, end in ends.items():
        made.fetched(
            NodeId(int(name[1:])),
            offset=Offset(end),
            leader_start_offset=Offset(0),
            leader_end_offset=END,
            broker_epoch=1,
            log_start_offset=Offset(10),
            now_ms=1,
        )
    return made


def nearer(known: Followers, *, rack: str, offset: int = 50) -> NodeId | None:
    return nearer_follower(
        known, rack=rack, own_rack=RACKS[LEADER], racks=RACKS, fetch_offset=offset
    )


def test_of_followers_in_the_rack_the_one_that_has_most_is_named() -> None:
    assert nearer(followers(n2=90, n3=95, n4=100), rack="b") == 3
    assert nearer(followers(n2=100, n3=95, n4=100), rack="b") == 2


def test_the_leader_is_read_from_in_its_own_rack_and_where_there_is_none() -> None:
    known = followers(n2=100, n3=100, n4=100)
    assert nearer(known, rack="a") is None
    assert nearer(known, rack="nowhere") is None
    assert nearer(known, rack="") is None


def test_followers_without_the_offset_or_out_of_sync_are_left_out() -> None:
    assert nearer(followers(n4=49), rack="c") is None
    assert nearer(followers(n4=50), rack="c") == 4
    assert nearer(followers(n4=100), rack="c", offset=9) is None, "its log begins later"
    assert nearer(followers(in_sync=(2, 3), n4=100), rack="c") is None
    assert nearer(followers(), rack="c") is None, "nothing is known of its log"


def test_followers_whose_broker_is_gone_are_left_out() -> None:
    known = followers(n4=100)
    assert (
        nearer_follower(known, rack="c", own_rack="a", racks={LEADER: "a"}, fetch_offset=50) is None
    )
