"""What leaders say of the lags of groups in their partitions is what the groups have not read."""

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as UpTo
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.broker.alerts import lags_elsewhere
from penstock.broker.alerts.lags_elsewhere import GroupPlace, LagsElsewhere
from penstock.client.network.bootstrap import parse_addresses
from penstock.client.network.cluster import Cluster
from penstock.metadata.image.image import Image
from penstock.metadata.image.topic import PartitionImage, TopicImage
from penstock.model.identity import NodeId, TopicId, TopicPartition
from penstock.model.offset import LeaderEpoch, Offset
from penstock.world.clock import RealClock
from penstock.world.tcp import TcpNetwork
from rig.held_clock import HeldClock
from rig.running_node import RunningNode, running_node

WAIT_SECONDS = 60
HOUR_S = 3_600
PARTITIONS = 6
OLD, FRESH, EMPTY, MARKED, DELETED, WITHOUT_LEADER = range(PARTITIONS)
END = 3
UNKNOWN = "a"  # a topic of the image that the node does not have; before t in each order


def topic_image(name: str = "t") -> TopicImage:
    """As the metadata have it, but for the last partition."""
    nodes = (NodeId(1),)
    return TopicImage(
        name=name,
        topic_id=TopicId(name.encode().ljust(16)),
        partitions=tuple(
            PartitionImage(
                replicas=nodes,
                isr=nodes,
                leader=None if index == WITHOUT_LEADER else NodeId(1),
                leader_epoch=LeaderEpoch(0),
                partition_epoch=0,
            )
            for index in range(PARTITIONS)
        ),
    )


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    """Records of an hour ago and of now; in one partition, those of a transaction."""
    with running_node(
        tmp_path_factory.mktemp("node"), transaction_state_log_num_partitions="1"
    ) as one:
        admin = AdminClient({"bootstrap.servers": one.bootstrap})
        admin.create_topics([NewTopic("t", PARTITIONS, 1)])["t"].result(WAIT_SECONDS)
        plain = Producer({"bootstrap.servers": one.bootstrap})
        write(plain, OLD, age_s=HOUR_S)
        write(plain, WITHOUT_LEADER, age_s=HOUR_S)
        write(plain, FRESH, age_s=0)
        write(plain, DELETED, age_s=HOUR_S)
        write(plain, DELETED, age_s=HOUR_S // 2)
        plain.flush()
        writer = Producer({"bootstrap.servers": one.bootstrap, "transactional.id": "w"})
        writer.init_transactions(WAIT_SECONDS)
        writer.begin_transaction()
        write(writer, MARKED, age_s=HOUR_S)
        writer.commit_transaction(WAIT_SECONDS)
        yield one


def write(producer: Producer, partition: int, *, age_s: int) -> None:
    for _ in range(END):
        at_ms = int((time.time() - age_s) * 1000)
        producer.produce("t", b"v", partition=partition, timestamp=at_ms)


def delete_before(node: RunningNode, partition: int, offset: int) -> None:
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    [deleted] = admin.delete_records([UpTo("t", partition, offset)]).values()
    assert deleted.result(WAIT_SECONDS).low_watermark == offset


class Asking:
    def __init__(self, node: RunningNode, *, within_ms: int = 60_000) -> None:
        self._node = node
        self.clock = HeldClock(RealClock())
        topics = [topic_image(), topic_image(UNKNOWN)]
        image = Image(
            topics_by_name={topic.name: topic for topic in topics},
            topics_by_id={topic.topic_id: topic for topic in topics},
        )
        self.lags = LagsElsewhere(
            client=lambda: Cluster(TcpNetwork(), RealClock(), parse_addresses(node.bootstrap)),
            image=lambda: image,
            within_ms=within_ms,
            interval_ms=1_000,
            clock=self.clock,
        )

    def ages_s(
        self, *committed: tuple[str, int, int], unknown: int = 0
    ) -> dict[tuple[str, int], int]:
        """In whole minutes, by group and partition, of what is known now. So many partitions of a
        topic that leaders refuse are asked for as well.
        """
        wanted = {
            GroupPlace(group, TopicPartition("t", index)): Offset(offset)
            for group, index, offset in committed
        } | {GroupPlace("g", TopicPartition(UNKNOWN, index)): Offset(0) for index in range(unknown)}
        return {
            (group, partition.partition): round(age_s) // 60 * 60
            for (group, partition), age_s in self.lags.ages_s(wanted).items()
        }

    def asked(
        self, *committed: tuple[str, int, int], unknown: int = 0
    ) -> dict[tuple[str, int], int]:
        self.ages_s(*committed, unknown=unknown)
        self._node.run(self.lags.ask())
        return self.ages_s(*committed, unknown=unknown)


def test_a_group_is_behind_by_the_age_of_the_first_record_that_it_has_not_read(
    node: RunningNode,
) -> None:
    wanted = [("g", OLD, 1), ("h", OLD, END), ("g", FRESH, 0), ("g", EMPTY, 0)]
    asking = Asking(node)
    assert asking.ages_s(*wanted) == {}
    told = asking.asked(*wanted)
    assert told == {("g", OLD): HOUR_S, ("h", OLD): 0, ("g", FRESH): 0, ("g", EMPTY): 0}


def test_a_marker_is_nothing_to_read(node: RunningNode) -> None:
    asking = Asking(node, within_ms=0)
    told = asking.asked(("g", MARKED, END), ("g", OLD, END))
    assert told == {("g", MARKED): 0, ("g", OLD): 0}
    assert asking.asked(("g", MARKED, END - 1)) == {("g", MARKED): HOUR_S}


def test_records_that_were_deleted_unread_keep_no_group_behind(node: RunningNode) -> None:
    asking = Asking(node)
    assert asking.asked(("g", DELETED, 0)) == {("g", DELETED): HOUR_S}
    delete_before(node, DELETED, END)
    assert asking.asked(("g", DELETED, 0)) == {("g", DELETED): HOUR_S // 2}
    delete_before(node, DELETED, 2 * END)
    assert asking.asked(("g", DELETED, 0)) == {("g", DELETED): 0}


def test_a_partition_that_cannot_be_asked_for_is_not_known_and_holds_no_other_up(
    node: RunningNode,
) -> None:
    wanted = [("g", WITHOUT_LEADER, 1), ("g", PARTITIONS, 1), ("g", OLD, 1)]
    assert Asking(node).asked(*wanted) == {("g", OLD): HOUR_S}


def test_groups_at_several_offsets_are_read_in_turns(
    node: RunningNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lags_elsewhere, "LAGS_READ_MAX", 1)
    asking = Asking(node)
    wanted = [("g", OLD, 0), ("h", OLD, 1), ("g", MARKED, 0)]
    found = [set(asking.asked(*wanted)) for _ in range(3)]
    assert [len(one) for one in found] == [1, 2, 3]
    assert ("g", MARKED) in found[1]
    # What a group has read meanwhile is asked for again.
    assert set(asking.ages_s(("g", OLD, 2), ("h", OLD, 1))) == {("h", OLD)}


def test_more_partitions_than_one_question_takes_are_asked_for_in_turns(
    node: RunningNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lags_elsewhere, "LAGS_ELSEWHERE_MAX", 2)
    asking = Asking(node)
    wanted = [("g", index, END) for index in (OLD, FRESH, EMPTY, MARKED)]
    assert [len(asking.asked(*wanted)) for _ in range(2)] == [2, 4]


def test_partitions_that_are_refused_take_the_turn_of_no_other(
    node: RunningNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lags_elsewhere, "LAGS_ELSEWHERE_MAX", 2)
    asking = Asking(node)
    found = [asking.asked(("g", OLD, END), unknown=2) for _ in range(2)]
    assert found == [{}, {("g", OLD): 0}]


def test_an_answer_that_is_too_old_is_none(node: RunningNode) -> None:
    asking = Asking(node)
    assert asking.asked(("g", OLD, END)) == {("g", OLD): 0}
    asking.clock.hold(later_ms=HOUR_S * 1000)
    assert asking.ages_s(("g", OLD, END)) == {}
