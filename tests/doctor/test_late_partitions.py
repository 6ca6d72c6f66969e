"""Which partitions a group is late in, by where it is and where recent records begin."""

from penstock.client.admin.last_batches import LogRange
from penstock.client.consume.group_offsets import Committed
from penstock.client.network.routing import ClusterView
from penstock.doctor.gather_groups import late_and_unseen
from penstock.model.identity import TopicPartition
from penstock.model.offset import Offset
from rig.cluster_seen import partition, topic

PLACES = [TopicPartition("orders", index) for index in range(4)]
VIEW = ClusterView(topics={"orders": topic("orders", *(partition(index) for index in range(4)))})
LOG = LogRange(start_offset=Offset(0), end_offset=Offset(10))


def test_a_group_is_late_where_it_has_not_read_up_to_recent_records() -> None:
    late, unseen = late_and_unseen(
        {place: Committed(offset=Offset(index * 5)) for index, place in enumerate(PLACES[:3])},
        dict.fromkeys(PLACES, LOG),
        dict.fromkeys(PLACES, Offset(4)),
        VIEW,
    )
    assert (late, unseen) == ({PLACES[0]: Offset(0)}, [])


def test_where_a_leader_did_not_answer_nobody_knows_whether_a_group_is_late() -> None:
    deleted = TopicPartition("bills", 0)
    late, unseen = late_and_unseen(
        dict.fromkeys([*PLACES, deleted], Committed(offset=Offset(5))),
        dict.fromkeys(PLACES[:3], LOG),
        dict.fromkeys(PLACES[:2], Offset(4)),
        VIEW,
    )
    assert (late, unseen) == ({}, PLACES[2:])
