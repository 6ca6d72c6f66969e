"""Elections and changes of in-sync sets, by images of the metadata."""

from dataclasses import replace

from penstock.broker.metrics.changes import MetadataChanges
from penstock.metadata.image.image import Delta, Image
from penstock.metadata.image.topic import LeaderRecovery, PartitionImage, TopicImage
from penstock.model.identity import NodeId, TopicId
from penstock.model.offset import LeaderEpoch

ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)
WHOLE = PartitionImage(
    replicas=(ONE, TWO, THREE),
    isr=(ONE, TWO, THREE),
    leader=ONE,
    leader_epoch=LeaderEpoch(0),
    partition_epoch=0,
)


def counted(*states: PartitionImage, node: NodeId = ONE) -> dict[str, float]:
    """What is counted while one partition goes through these states."""
    changes = MetadataChanges(node)
    for state in states:
        topic = TopicImage(name="t", topic_id=TopicId(bytes(16)), partitions=(WHOLE, state))
        image = Image(topics_by_name={"t": topic}, topics_by_id={topic.topic_id: topic})
        changes.note(Delta(topics_changed=(topic,)), image)
    words = ("isrshrinks", "isrexpands", "uncleanleaderelections", "leader_elections")
    return {
        next(word for word in words if word in one.family.name): one.value
        for one in changes.source.samples()
        if one is not None and one.value
    }


def test_a_set_that_shrinks_and_grows_is_counted_by_its_leader() -> None:
    states = (WHOLE, replace(WHOLE, isr=(ONE, TWO)), replace(WHOLE, isr=(ONE,)), WHOLE)
    assert counted(*states) == {"isrshrinks": 2, "isrexpands": 1}
    assert counted(*states, node=TWO) == {}


def test_an_election_is_counted_by_every_node() -> None:
    after = replace(WHOLE, leader=TWO, isr=(TWO, THREE))
    assert counted(WHOLE, after, node=TWO) == {"leader_elections": 1, "isrshrinks": 1}
    assert counted(WHOLE, after, node=THREE) == {"leader_elections": 1}


def test_what_was_so_at_the_start_is_not_counted() -> None:
    assert counted(replace(WHOLE, leader=TWO)) == {}


def test_a_leader_that_comes_back_is_an_election_and_not_an_unclean_one() -> None:
    alone = replace(WHOLE, isr=(ONE,))
    gone = replace(alone, leader=None, isr=(), last_known_elr=(ONE,))
    assert counted(alone, gone, alone) == {"leader_elections": 1}
    eligible = replace(gone, elr=(TWO,), last_known_elr=())
    assert counted(alone, eligible, replace(alone, leader=TWO, isr=(TWO,)), node=THREE) == {
        "leader_elections": 1
    }


def test_a_leader_that_was_not_in_sync_is_an_unclean_election() -> None:
    alone = replace(WHOLE, isr=(ONE,))
    unclean = replace(
        alone, leader=THREE, isr=(THREE,), leader_recovery_state=LeaderRecovery.RECOVERING
    )
    states = (alone, replace(alone, leader=None), unclean)
    assert counted(*states, node=TWO) == {"leader_elections": 1, "uncleanleaderelections": 1}


def test_a_leader_that_came_in_sync_meanwhile_is_no_unclean_election() -> None:
    """A node that takes up several changes in one step does not see how they came about."""
    alone = replace(WHOLE, isr=(ONE,))
    assert counted(alone, replace(alone, leader=THREE, isr=(THREE,)), node=TWO) == {
        "leader_elections": 1
    }
