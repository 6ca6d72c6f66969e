"""Several brokers may need an internal topic first, at the same time: one of them makes it."""

import asyncio
from typing import Any, cast

import pytest

from penstock.broker.coordinators.internal_topic import (
    CREATION_WAIT_MS_MAX,
    InternalTopic,
    internal_topic,
)
from penstock.groups.partitioning import OFFSETS_TOPIC
from penstock.metadata.image.image import Image
from penstock.metadata.image.topic import PartitionImage, TopicImage
from penstock.model.error import ErrorCode, RequestError
from penstock.model.identity import NodeId, TopicId
from penstock.model.offset import LeaderEpoch
from penstock.sim.loop import SimLoop
from penstock.wire.messages.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

WANTED = internal_topic(
    OFFSETS_TOPIC, partitions=1, replicas=1, brokers=3, may_be_alone=False, configs={}
)
PARTITION = PartitionImage(
    replicas=(NodeId(2),),
    isr=(NodeId(2),),
    leader=NodeId(2),
    leader_epoch=LeaderEpoch(0),
    partition_epoch=0,
)
TOPIC = TopicImage(name=OFFSETS_TOPIC, topic_id=TopicId(b"t" * 16), partitions=(PARTITION,))
WITH_TOPIC = Image(topics_by_name={OFFSETS_TOPIC: TOPIC}, topics_by_id={TOPIC.topic_id: TOPIC})


class Controller:
    """On another node; it answers, or refuses, what it was made with."""

    def __init__(self, answer: ErrorCode | RequestError) -> None:
        self.answer = answer
        self.asked = 0

    async def ask(self, request: CreateTopicsRequest, *, wait_ms_max: int) -> CreateTopicsResponse:
        self.asked += 1
        await asyncio.sleep(0.01)
        if isinstance(self.answer, RequestError):
            raise self.answer
        result = CreatableTopicResult(name=OFFSETS_TOPIC, error_code=self.answer)
        return CreateTopicsResponse(topics=[result])


def in_virtual_time(scenario: Any) -> Any:
    loop = SimLoop()  # type: ignore[abstract]
    try:
        return loop.run_until_complete(scenario)
    finally:
        loop.close()


@pytest.mark.parametrize("code", [ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS])
def test_a_broker_goes_on_when_its_own_image_has_the_topic(code: ErrorCode) -> None:
    async def scenario() -> None:
        controller = Controller(code)
        topic = InternalTopic(cast(Any, controller), OFFSETS_TOPIC)
        asking = [asyncio.ensure_future(topic.create(WANTED)) for _ in range(3)]
        await asyncio.sleep(CREATION_WAIT_MS_MAX / 2000)
        topic.follow(Image())
        await asyncio.sleep(0.1)
        assert not any(one.done() for one in asking)
        topic.follow(WITH_TOPIC)
        await asyncio.gather(*asking)
        assert controller.asked == 1

    in_virtual_time(scenario())


@pytest.mark.parametrize(
    "answer",
    [
        RequestError(ErrorCode.NOT_CONTROLLER, "no controller is active"),
        RequestError(ErrorCode.REQUEST_TIMED_OUT),
        ErrorCode.INVALID_REPLICATION_FACTOR,
        ErrorCode.TOPIC_ALREADY_EXISTS,  # and the image never shows it
    ],
)
def test_whatever_is_in_the_way_clients_try_again(answer: ErrorCode | RequestError) -> None:
    """Transactional clients, which name a group, give up after an error of controllers."""

    async def scenario() -> None:
        topic = InternalTopic(cast(Any, Controller(answer)), OFFSETS_TOPIC)
        with pytest.raises(RequestError) as refused:
            await topic.create(WANTED)
        assert refused.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE

    in_virtual_time(scenario())


@pytest.mark.parametrize(
    ("brokers", "may_be_alone", "replicas"),
    [(0, True, 1), (1, True, 1), (2, True, 3), (1, False, 3)],
)
def test_a_topic_has_fewer_replicas_than_are_wanted_only_on_a_cluster_of_one(
    brokers: int, may_be_alone: bool, replicas: int
) -> None:
    wanted = internal_topic(
        OFFSETS_TOPIC,
        partitions=1,
        replicas=3,
        brokers=brokers,
        may_be_alone=may_be_alone,
        configs={},
    )
    assert wanted.replication_factor == replicas
