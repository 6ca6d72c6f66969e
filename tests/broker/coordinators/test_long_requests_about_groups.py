"""A request about many groups keeps no other client waiting, and tells of a group once."""

import asyncio
from pathlib import Path

from penstock.broker.coordinators.ask_each import PARTS_PER_TURN, ask_each
from penstock.model.error import ErrorCode, RequestError
from penstock.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from penstock.wire.messages.delete_groups import DeleteGroupsRequest
from penstock.wire.messages.describe_groups import DescribeGroupsRequest
from penstock.wire.messages.find_coordinator import FindCoordinatorRequest
from penstock.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from rig.dialogue import Dialogue
from rig.running_node import running_node

MANY = 50 * PARTS_PER_TURN


def test_others_get_their_turn_while_many_groups_are_asked() -> None:
    async def scenario() -> int:
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        def ask(number: int) -> str:
            if number % 2:
                raise RequestError(ErrorCode.NOT_COORDINATOR, "odd")
            return f"{number}"

        beside = asyncio.create_task(other())
        replies = await ask_each(range(MANY), ask, lambda number, code: code.name)
        beside.cancel()
        assert replies == ["NOT_COORDINATOR" if n % 2 else f"{n}" for n in range(MANY)]
        return turns

    assert asyncio.run(scenario()) >= MANY // PARTS_PER_TURN - 1


def test_a_group_named_many_times_is_told_of_once(tmp_path: Path) -> None:
    names = ["g", "h", *["g"] * 100]
    whole = [OffsetFetchRequestGroup(group_id=name, topics=None) for name in names]
    part = OffsetFetchRequestGroup(
        group_id="g", topics=[OffsetFetchRequestTopics(name="t", partition_indexes=[0, 1, 0])]
    )
    with running_node(tmp_path / "node") as node:
        dialogue = Dialogue(node.bootstrap, "t")
        dialogue.exchange(FindCoordinatorRequest(coordinator_keys=["g"]), version=6)
        described = dialogue.exchange(DescribeGroupsRequest(groups=names), version=6)
        request = ConsumerGroupDescribeRequest(group_ids=names)
        consumers = dialogue.exchange(request, version=1)
        fetched = dialogue.exchange(OffsetFetchRequest(groups=[*whole, part]), version=9)
        deleted = dialogue.exchange(DeleteGroupsRequest(groups_names=names), version=2)
        dialogue.close()
    assert [group.group_id for group in described.groups] == ["g", "h"]
    assert [group.group_id for group in consumers.groups] == ["g", "h"]
    assert [group.group_id for group in fetched.groups] == ["g", "h", "g"]
    (topic,) = fetched.groups[2].topics
    assert [partition.partition_index for partition in topic.partitions] == [0, 1]
    assert [result.group_id for result in deleted.results] == ["g", "h"]
