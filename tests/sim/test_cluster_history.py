"""What must be true of a cluster follows from what its clients were told, and from nothing else."""

import pytest

from penstock.metadata.image.image import ConfigResource, Image
from penstock.metadata.image.topic import PartitionImage, TopicImage
from penstock.model.configs import ResourceKind
from penstock.model.identity import NodeId, TopicId, TopicPartition
from penstock.model.offset import LeaderEpoch
from penstock.sim.cluster.history import (
    ClusterHistory,
    Outcome,
    Presence,
    TopicHistory,
    TransactionHistory,
)
from penstock.sim.cluster.judgement import judge_images
from penstock.sim.errors import Violation

FIRST, SECOND = TopicId(b"1" * 16), TopicId(b"2" * 16)
RETENTION = "retention.ms"


def created(**changes: object) -> TopicHistory:
    topic = TopicHistory(
        name="orders",
        partitions=2,
        replicas=1,
        settings={RETENTION: "1000"},
        presence=Presence.THERE,
        topic_id=FIRST,
        creations=1,
    )
    for name, value in changes.items():
        setattr(topic, name, value)
    return topic


def image(*, topic_id: TopicId = FIRST, partitions: int = 2, retention_ms: str = "1000") -> Image:
    node = NodeId(1)
    one = PartitionImage(
        replicas=(node,),
        isr=(node,),
        leader=node,
        leader_epoch=LeaderEpoch(0),
        partition_epoch=0,
    )
    topic = TopicImage(name="orders", topic_id=topic_id, partitions=(one,) * partitions)
    return Image(
        topics_by_name={"orders": topic},
        topics_by_id={topic_id: topic},
        configs={ConfigResource(ResourceKind.TOPIC, "orders"): {RETENTION: retention_ms}},
    )


def judge(topic: TopicHistory, found: Image) -> None:
    history = ClusterHistory()
    history.topics[topic.name] = topic
    judge_images(history, {"node-1": found})


@pytest.mark.parametrize(
    ("topic", "found"),
    [
        (created(), image()),
        (created(partitions_asked={3}), image(partitions=3)),
        (created(partitions_asked={3}), image(partitions=2)),
        (created(settings_asked={RETENTION: {"5"}}), image(retention_ms="5")),
        (created(presence=Presence.ASKED), Image()),
        (created(presence=Presence.LEAVING), Image()),
        (created(presence=Presence.LEAVING), image()),
        (created(presence=Presence.GONE), Image()),
        (created(presence=Presence.GONE, creations=2), image(topic_id=SECOND)),
    ],
)
def test_what_was_done_or_may_have_been_done_is_accepted(topic: TopicHistory, found: Image) -> None:
    judge(topic, found)


@pytest.mark.parametrize(
    ("topic", "found", "told"),
    [
        (created(), Image(), "was created, and node-1 lacks it"),
        (created(), image(topic_id=SECOND), "another id"),
        (created(), image(partitions=3), "has 3 partitions"),
        (created(partitions_asked={1}), image(partitions=1), "has 1 partitions"),
        (created(replicas=3), image(), r"has \[1\] replicas at node-1, not 3"),
        (created(), image(retention_ms="5"), "retention.ms of orders is 5"),
        (created(presence=Presence.GONE), image(), "was deleted, and node-1 still has it"),
    ],
)
def test_an_acked_operation_that_is_lost_or_done_twice_is_found(
    topic: TopicHistory, found: Image, told: str
) -> None:
    with pytest.raises(Violation, match=told):
        judge(topic, found)


def test_a_topic_is_created_for_one_client_alone() -> None:
    history = ClusterHistory()
    history.created_by("race-1", "admin-0")
    with pytest.raises(Violation, match="done twice"):
        history.created_by("race-1", "admin-1")


def test_a_topic_that_one_client_has_created_stays() -> None:
    history = ClusterHistory()
    history.created_by("race-1", "admin-0")
    with pytest.raises(Violation, match="not known to node-1"):
        judge_images(history, {"node-1": image()})


def test_an_offset_has_one_record() -> None:
    history = ClusterHistory()
    place = TopicPartition("orders", 0)
    history.acked(place, 7, b"one")
    history.seen(place, 7, b"one")
    with pytest.raises(Violation, match="offsets"):
        history.seen(place, 7, b"another")
    assert history.acks == 1


ALL, SOME, NONE = frozenset({b"a", b"b"}), frozenset({b"a"}), frozenset[bytes]()


@pytest.mark.parametrize(
    ("outcome", "seen"),
    [
        (Outcome.COMMITTED, ALL),
        (Outcome.ASKED, ALL),
        (Outcome.ASKED, NONE),
        (Outcome.OPEN, NONE),
    ],
)
def test_a_transaction_counts_whole_or_not_at_all(outcome: Outcome, seen: frozenset[bytes]) -> None:
    TransactionHistory(name="one", values=ALL, outcome=outcome).check(seen)


@pytest.mark.parametrize(
    ("outcome", "seen"),
    [
        (Outcome.COMMITTED, SOME),
        (Outcome.COMMITTED, NONE),
        (Outcome.ASKED, SOME),
        (Outcome.OPEN, SOME),
        (Outcome.OPEN, ALL),
    ],
)
def test_a_transaction_that_counts_in_part_is_found(
    outcome: Outcome, seen: frozenset[bytes]
) -> None:
    with pytest.raises(Violation, match="transactions"):
        TransactionHistory(name="one", values=ALL, outcome=outcome).check(seen)


def test_the_last_acked_commit_or_one_without_an_answer_may_be_in_force() -> None:
    history = ClusterHistory()
    history.commits["group"] = {1: True, 2: False, 3: True, 4: False}
    assert history.offsets_of("group") == {2, 3, 4}
