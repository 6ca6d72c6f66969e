"""What groups without members are asked, and asked wrongly, is answered as by Apache Kafka.

Each conversation has a group of its own, named after its topic.
"""

from collections.abc import Callable

import pytest

from penstock.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from penstock.wire.messages.delete_groups import DeleteGroupsRequest
from penstock.wire.messages.describe_groups import DescribeGroupsRequest
from penstock.wire.messages.find_coordinator import FindCoordinatorRequest
from penstock.wire.messages.list_groups import ListGroupsRequest
from penstock.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from penstock.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from penstock.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from rig.dialogue import Dialogue

NOT_YET = (14, 15, 16)  # loading, not available, not here
COMMIT_VERSIONS = range(2, 11)
FETCH_VERSIONS = range(1, 11)
METADATA_BYTES_MAX = 4096


def group_of(dialogue: Dialogue) -> str:
    return f"group-of-{dialogue.topic}"


def start(dialogue: Dialogue, *, partitions: int = 2) -> bytes:
    """A topic, and a coordinator that is ready for its group; returns the topic's id."""
    topic_id = dialogue.create_topic(partitions=partitions)
    find = FindCoordinatorRequest(coordinator_keys=[group_of(dialogue)])
    while dialogue.exchange(find, version=4).coordinators[0].error_code in NOT_YET:
        pass
    describe = DescribeGroupsRequest(groups=[group_of(dialogue)])
    while dialogue.exchange(describe, version=5).groups[0].error_code in NOT_YET:
        pass
    return topic_id


def commit_request(
    dialogue: Dialogue,
    offset: int,
    *,
    partition: int = 0,
    topic: str | None = None,
    topic_id: bytes = bytes(16),
    metadata: str | None = "",
    member: str = "",
    generation: int = -1,
    group: str | None = None,
    leader_epoch: int = -1,
) -> OffsetCommitRequest:
    part = OffsetCommitRequestPartition(
        partition_index=partition,
        committed_offset=offset,
        committed_leader_epoch=leader_epoch,
        committed_metadata=metadata,
    )
    name = dialogue.topic if topic is None else topic
    asked = OffsetCommitRequestTopic(name=name, topic_id=topic_id, partitions=[part])
    return OffsetCommitRequest(
        group_id=group_of(dialogue) if group is None else group,
        generation_id_or_member_epoch=generation,
        member_id=member,
        topics=[asked],
    )


def fetch_request(
    dialogue: Dialogue,
    *,
    topic_id: bytes = bytes(16),
    partitions: tuple[int, ...] = (0, 1),
    everything: bool = False,
    group: str | None = None,
    topic: str | None = None,
    member: str | None = None,
    epoch: int = -1,
) -> OffsetFetchRequest:
    """One question in the forms of all versions."""
    name, indexes = topic or dialogue.topic, list(partitions)
    group = group_of(dialogue) if group is None else group
    old = [OffsetFetchRequestTopic(name=name, partition_indexes=indexes)]
    new = [OffsetFetchRequestTopics(name=name, topic_id=topic_id, partition_indexes=indexes)]
    asked = OffsetFetchRequestGroup(
        group_id=group,
        member_id=member,
        member_epoch=epoch,
        topics=None if everything else new,
    )
    return OffsetFetchRequest(group_id=group, topics=None if everything else old, groups=[asked])


def commits_and_fetches_in_every_version(dialogue: Dialogue) -> None:
    topic_id = start(dialogue)
    for version in COMMIT_VERSIONS:
        request = commit_request(
            dialogue, 100 + version, topic_id=topic_id, metadata=f"of {version}", leader_epoch=0
        )
        dialogue.ask(request, version=version)
        dialogue.ask(fetch_request(dialogue, topic_id=topic_id), version=min(version, 9))
    for version in FETCH_VERSIONS:
        dialogue.ask(fetch_request(dialogue, topic_id=topic_id), version=version)
        if version >= 2:
            dialogue.ask(fetch_request(dialogue, everything=True), version=version)


def commits_that_fail(dialogue: Dialogue) -> None:
    topic_id = start(dialogue)
    for request in (
        commit_request(dialogue, 1, partition=9),
        commit_request(dialogue, 1, partition=-1),
        commit_request(dialogue, 1, topic="nowhere"),
        commit_request(dialogue, 1, topic=""),
        commit_request(dialogue, 1, metadata="x" * METADATA_BYTES_MAX),
        commit_request(dialogue, 1, metadata="x" * (METADATA_BYTES_MAX + 1)),
        commit_request(dialogue, 1, metadata=None),
        commit_request(dialogue, -5),
        commit_request(dialogue, 1, member="somebody", generation=3),
        commit_request(dialogue, 1, member="somebody", generation=-1),
        commit_request(dialogue, 1, member="", generation=3),
        commit_request(dialogue, 1, group=""),
    ):
        for version in (2, 5, 8, 9):
            dialogue.ask(request, version=version)
    for unknown_id in (bytes(16), b"u" * 16):
        dialogue.ask(commit_request(dialogue, 1, topic_id=unknown_id), version=10)
    dialogue.ask(commit_request(dialogue, 1, partition=9, topic_id=topic_id), version=10)
    dialogue.ask(OffsetCommitRequest(group_id=group_of(dialogue)), version=9)


def fetches_of_what_is_not_there(dialogue: Dialogue) -> None:
    topic_id = start(dialogue)
    dialogue.ask(commit_request(dialogue, 5), version=9)
    for request in (
        fetch_request(dialogue, partitions=(0, 7)),
        fetch_request(dialogue, partitions=()),
        fetch_request(dialogue, topic="nowhere"),
        fetch_request(dialogue, group=group_of(dialogue) + "-unknown"),
        fetch_request(dialogue, group=group_of(dialogue) + "-unknown", everything=True),
        fetch_request(dialogue, group=""),
    ):
        for version in (2, 5, 7, 8, 9):
            dialogue.ask(request, version=version)
    dialogue.ask(fetch_request(dialogue, topic_id=b"u" * 16), version=10)
    dialogue.ask(fetch_request(dialogue, topic_id=topic_id, partitions=(0, 7)), version=10)
    for member, epoch in (("somebody", 3), ("somebody", -1), ("", 3), (None, 3)):
        dialogue.ask(fetch_request(dialogue, member=member, epoch=epoch), version=9)


def several_groups_at_once(dialogue: Dialogue) -> None:
    """Each named once: what is named twice, Kafka answers twice, and we once."""
    start(dialogue)
    dialogue.ask(commit_request(dialogue, 5), version=9)
    groups = [
        OffsetFetchRequestGroup(group_id=name, topics=None)
        for name in (group_of(dialogue), "no-such-group")
    ]
    for version in (8, 9, 10):
        dialogue.ask(OffsetFetchRequest(groups=groups), version=version)
    dialogue.ask(OffsetFetchRequest(groups=[]), version=9)


def descriptions(dialogue: Dialogue) -> None:
    start(dialogue)
    unknown = group_of(dialogue) + "-unknown"
    dialogue.ask(commit_request(dialogue, 5), version=9)
    for version in range(7):
        for names in ([group_of(dialogue)], [unknown], [""], []):
            dialogue.ask(DescribeGroupsRequest(groups=names), version=version)
    asked = DescribeGroupsRequest(
        groups=[group_of(dialogue), unknown], include_authorized_operations=True
    )
    dialogue.ask(asked, version=5)
    for version in (0, 1):
        for names in ([group_of(dialogue)], [unknown], [""], []):
            dialogue.ask(ConsumerGroupDescribeRequest(group_ids=names), version=version)


def lists(dialogue: Dialogue) -> None:
    start(dialogue)
    dialogue.ask(commit_request(dialogue, 5), version=9)
    filters: list[tuple[list[str], list[str]]] = [
        ([], []),
        (["Empty"], []),
        (["empty"], []),
        (["Stable"], []),
        (["Nonsense"], []),
        (["Stable", "Empty"], []),
        ([], ["classic"]),
        ([], ["Classic"]),
        ([], ["consumer"]),
        ([], ["nonsense"]),
        (["Empty"], ["classic", "consumer"]),
    ]
    for version in range(6):
        for states, types in filters:
            if (states and version < 4) or (types and version < 5):
                continue
            request = ListGroupsRequest(states_filter=states, types_filter=types)
            answer = dialogue.exchange(request, version=version)
            own = [
                (g.group_id, g.protocol_type, g.group_state, g.group_type)
                for g in answer.groups
                if g.group_id == group_of(dialogue)
            ]
            dialogue.answers.append((version, states, types, answer.error_code, own))


def deletions_of_groups(dialogue: Dialogue) -> None:
    start(dialogue)
    for version in range(3):
        dialogue.ask(commit_request(dialogue, 5), version=9)
        for names in (
            [group_of(dialogue)],
            [group_of(dialogue)],
            [group_of(dialogue) + "-unknown"],
            [""],
            [],
            [group_of(dialogue), group_of(dialogue)],
        ):
            dialogue.ask(DeleteGroupsRequest(groups_names=names), version=version)
        dialogue.ask(fetch_request(dialogue, everything=True), version=9)


def deletions_of_offsets(dialogue: Dialogue) -> None:
    start(dialogue)
    for partition in (0, 1):
        dialogue.ask(commit_request(dialogue, 5, partition=partition), version=9)
    unknown = group_of(dialogue) + "-unknown"
    for group, topic, partitions in (
        (group_of(dialogue), dialogue.topic, (0, 7)),
        (group_of(dialogue), "nowhere", (0,)),
        (group_of(dialogue), dialogue.topic, ()),
        (unknown, dialogue.topic, (0,)),
        ("", dialogue.topic, (0,)),
    ):
        asked = OffsetDeleteRequestTopic(
            name=topic,
            partitions=[OffsetDeleteRequestPartition(partition_index=one) for one in partitions],
        )
        request = OffsetDeleteRequest(group_id=group, topics=[asked])
        answer = dialogue.exchange(request, version=0)
        # Apache Kafka tells what it refuses first; nobody reads them by their order.
        told = [
            (t.name, sorted((p.partition_index, p.error_code) for p in t.partitions))
            for t in answer.topics
        ]
        dialogue.answers.append((answer.error_code, told))
    dialogue.ask(OffsetDeleteRequest(group_id=group_of(dialogue)), version=0)
    dialogue.ask(fetch_request(dialogue, everything=True), version=9)


def the_last_offset_deleted(dialogue: Dialogue) -> None:
    start(dialogue)
    dialogue.ask(commit_request(dialogue, 5), version=9)
    one = OffsetDeleteRequestPartition(partition_index=0)
    asked = OffsetDeleteRequestTopic(name=dialogue.topic, partitions=[one])
    dialogue.ask(OffsetDeleteRequest(group_id=group_of(dialogue), topics=[asked]), version=0)
    dialogue.ask(DescribeGroupsRequest(groups=[group_of(dialogue)]), version=6)
    dialogue.ask(fetch_request(dialogue, everything=True), version=9)
    dialogue.ask(DeleteGroupsRequest(groups_names=[group_of(dialogue)]), version=2)


def coordinators(dialogue: Dialogue) -> None:
    start(dialogue)
    for version in range(7):
        for key_type in (0, 7, -1):
            request = FindCoordinatorRequest(
                key=group_of(dialogue),
                key_type=key_type,
                coordinator_keys=[group_of(dialogue), "another"],
            )
            if key_type and version == 0:
                continue
            dialogue.ask(request, version=version)
        empty = FindCoordinatorRequest(key="", coordinator_keys=[""])
        dialogue.ask(empty, version=version)
        if version >= 4:
            dialogue.ask(FindCoordinatorRequest(coordinator_keys=[]), version=version)


@pytest.mark.parametrize(
    "talk",
    [
        commits_and_fetches_in_every_version,
        commits_that_fail,
        fetches_of_what_is_not_there,
        several_groups_at_once,
        descriptions,
        lists,
        deletions_of_groups,
        deletions_of_offsets,
        the_last_offset_deleted,
        coordinators,
    ],
    ids=lambda talk: talk.__name__,
)
def test_a_group_is_answered_as_by_apache_kafka(
    talk: Callable[[Dialogue], None],
    assert_same_answers: Callable[[Callable[[Dialogue], None]], None],
) -> None:
    assert_same_answers(talk)
