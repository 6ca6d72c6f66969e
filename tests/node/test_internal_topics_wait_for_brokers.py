"""Topics of coordinators are made with as many replicas as settings say, once there are so many
brokers: with one that was made earlier, groups would end with the first node that is lost.
"""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from penstock.groups.partitioning import OFFSETS_TOPIC
from penstock.model.error import ErrorCode
from penstock.model.topic_name import TRANSACTION_TOPIC
from penstock.wire.messages.find_coordinator import FindCoordinatorRequest
from rig.cluster_questions import until
from rig.dialogue import Dialogue
from rig.failover.questions import partition_states
from rig.served_cluster import ServedCluster

TOPICS = {0: OFFSETS_TOPIC, 1: TRANSACTION_TOPIC}  # by the type of the key
PARTITIONS = 3


def laid_out(folder: Path, nodes: int) -> ServedCluster:
    few = str(PARTITIONS)
    return ServedCluster(
        folder,
        nodes,
        offsets_topic_num_partitions=few,
        transaction_state_log_num_partitions=few,
    )


@pytest.fixture
def three(tmp_path: Path) -> Iterator[ServedCluster]:
    with laid_out(tmp_path, 3) as cluster:
        yield cluster


@pytest.fixture
def two(tmp_path: Path) -> Iterator[ServedCluster]:
    """Of which the first one is the only voter."""
    with laid_out(tmp_path, 2) as cluster:
        yield cluster


def found(address: str, kind: int) -> Any:
    with closing(Dialogue(address, "")) as dialogue:
        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=["billing"])
        [told] = dialogue.exchange(request, version=4).coordinators
    return told


def refuses_and_makes_nothing(cluster: ServedCluster, *nodes: int) -> None:
    for address in (cluster.addresses[node] for node in nodes):
        for kind, topic in TOPICS.items():
            told = found(address, kind)
            assert told.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE, told
            assert told.node_id == -1
            assert partition_states(address, topic) == {}


def until_made(cluster: ServedCluster, *, replicas: int) -> None:
    for kind, topic in TOPICS.items():
        until(f"{topic} has coordinators", lambda kind=kind: names_coordinators(cluster, kind))
        states = partition_states(cluster.addresses[1], topic)
        assert len(states) == PARTITIONS
        assert {len(state.replicas) for state in states.values()} == {replicas}


def names_coordinators(cluster: ServedCluster, kind: int) -> bool:
    """Whether each node does, the same one."""
    told = {found(address, kind).node_id for address in cluster.addresses.values()}
    return len(told) == 1 and told <= set(cluster.nodes)


def test_two_brokers_of_three_refuse_coordinators_until_the_third_has_come(
    three: ServedCluster,
) -> None:
    three.start(1, 2)
    refuses_and_makes_nothing(three, 1, 2)
    three.start(3)
    until_made(three, replicas=3)


def test_one_broker_of_two_refuses_coordinators_until_the_other_has_come(
    two: ServedCluster,
) -> None:
    two.start(1)
    refuses_and_makes_nothing(two, 1)
    two.start(2)
    until_made(two, replicas=2)
