"""The controller is told in which log directory a replica is, where it knows another or none."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from penstock.broker.replication.directory_assignments import DirectoryAssignments
from penstock.model.error import ErrorCode, RequestError
from penstock.wire.messages.assign_replicas_to_dirs import (
    AssignedDirectory,
    AssignedReplica,
    AssignedTopic,
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)
from penstock.world.tasks import TaskGroup
from rig.leader_node import until
from rig.services import NODE, Broker

WAIT_S_MAX = 120
A, B = bytes(15) + b"a", bytes(15) + b"b"


class Controller:
    def __init__(self) -> None:
        self.requests: list[AssignReplicasToDirsRequest] = []
        self.codes: list[ErrorCode] = []  # of the first answers
        self.refusals: list[RequestError] = []

    async def ask(self, request: AssignReplicasToDirsRequest) -> AssignReplicasToDirsResponse:
        self.requests.append(request)
        if self.refusals:
            raise self.refusals.pop(0)
        code = self.codes.pop(0) if self.codes else ErrorCode.NONE
        return AssignReplicasToDirsResponse(
            directories=[
                AssignedDirectory(
                    id=directory.id,
                    topics=[
                        AssignedTopic(
                            topic_id=topic.topic_id,
                            partitions=[
                                AssignedReplica(
                                    partition_index=one.partition_index, error_code=code
                                )
                                for one in topic.partitions
                            ],
                        )
                        for topic in directory.topics
                    ],
                )
                for directory in request.directories
            ]
        )


Scenario = Callable[[Broker, DirectoryAssignments, Controller], Awaitable[None]]


@pytest.fixture
def run(tmp_path: Path) -> Callable[[Scenario], None]:
    async def work(scenario: Scenario) -> None:
        broker, controller = Broker(tmp_path, directories=("a", "b")), Controller()
        assignments = DirectoryAssignments(
            ask=controller.ask,
            node_id=NODE,
            broker_epoch=lambda: 7,
            image=lambda: broker.services.image,
            directory_ids={str(tmp_path / "a"): A, str(tmp_path / "b"): B},
        )
        async with TaskGroup() as group:
            group.start(assignments.run())
            await scenario(broker, assignments, controller)
            group.cancel()
        broker.close()

    return lambda scenario: asyncio.run(asyncio.wait_for(work(scenario), WAIT_S_MAX))


def told(controller: Controller) -> dict[bytes, int]:
    """How many replicas of each directory the last request names."""
    return {
        directory.id: sum(len(topic.partitions) for topic in directory.topics)
        for directory in controller.requests[-1].directories
    }


def test_new_replicas_are_told_in_one_request(run: Callable[[Scenario], None]) -> None:
    async def scenario(
        broker: Broker, assignments: DirectoryAssignments, controller: Controller
    ) -> None:
        broker.create_topic("t", 10)
        assignments.look(broker.applied.led)
        await until(lambda: len(controller.requests) == 1)
        assert told(controller) == {A: 5, B: 5}
        assert controller.requests[0].broker_epoch == 7

    run(scenario)


@pytest.mark.parametrize("refused", [True, False])
def test_what_was_not_assigned_is_told_again(
    run: Callable[[Scenario], None], refused: bool
) -> None:
    async def scenario(
        broker: Broker, assignments: DirectoryAssignments, controller: Controller
    ) -> None:
        if refused:
            controller.refusals = [RequestError(ErrorCode.NOT_CONTROLLER)]
        else:
            controller.codes = [ErrorCode.LOG_DIR_NOT_FOUND]
        broker.create_topic("t")
        assignments.look(broker.applied.led)
        await until(lambda: len(controller.requests) == 2)
        assert told(controller) == {A: 1}

    run(scenario)


def test_replicas_of_deleted_topics_are_not_told(run: Callable[[Scenario], None]) -> None:
    async def scenario(
        broker: Broker, assignments: DirectoryAssignments, controller: Controller
    ) -> None:
        broker.create_topic("gone")
        assignments.look(broker.applied.led)
        broker.delete_topic("gone")
        broker.create_topic("t")
        assignments.look(broker.applied.led)
        await until(lambda: len(controller.requests) == 1)
        assert sum(told(controller).values()) == 1

    run(scenario)
