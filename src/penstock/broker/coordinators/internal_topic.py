"""A topic of the coordinators' own is made when it is first needed."""

import asyncio

from penstock.broker.controller.controller_link import ControllerLink
from penstock.metadata.image.image import Image
from penstock.model.error import ErrorCode, RequestError
from penstock.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)

CREATION_WAIT_MS_MAX = 5_000
THERE = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)


class InternalTopic:
    """However many ask for it at once, the controller is asked once. Several brokers may ask for it
    at the same time: then one makes it, and the others wait until they see it.
    """

    def __init__(self, controller: ControllerLink, name: str) -> None:
        self._controller = controller
        self._name = name
        self._creating: asyncio.Future[None] | None = None
        self._seen = asyncio.Event()

    def follow(self, image: Image) -> None:
        """The metadata has changed."""
        if self._name in image.topics_by_name:
            self._seen.set()
        else:
            self._seen.clear()

    async def create(self, wanted: CreatableTopic) -> None:
        """Returns when the image shows the topic. RequestError when it could not be made."""
        if self._creating is None:
            creating = asyncio.ensure_future(self._ask(wanted))
            creating.add_done_callback(self._created)
            self._creating = creating
        await asyncio.shield(self._creating)

    async def _ask(self, wanted: CreatableTopic) -> None:
        request = CreateTopicsRequest(topics=[wanted], timeout_ms=CREATION_WAIT_MS_MAX)
        try:
            answer = await self._controller.ask(request, wait_ms_max=CREATION_WAIT_MS_MAX)
        except RequestError as refusal:
            # What controllers refuse with, clients of a coordinator do not try again after.
            raise RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE, refusal.message) from refusal
        (result,) = answer.topics
        if result.error_code not in THERE:
            raise RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE, result.error_message)
        try:
            async with asyncio.timeout(CREATION_WAIT_MS_MAX / 1000):
                await self._seen.wait()
        except TimeoutError as late:
            raise RequestError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                f"{self._name} was created, and this broker has not heard of it yet",
            ) from late

    def _created(self, creating: asyncio.Future[None]) -> None:
        self._creating = None
        if not creating.cancelled():
            creating.exception()  # those who wait for it raise it


def internal_topic(
    name: str,
    *,
    partitions: int,
    replicas: int,
    brokers: int,
    may_be_alone: bool,
    configs: dict[str, str],
) -> CreatableTopic:
    """A broker that is a cluster of its own has one replica: groups and transactions should work
    there too. Elsewhere there are as many as are wanted, or the topic is not made yet: it would
    keep fewer because somebody came before the other brokers.
    """
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=1 if may_be_alone and brokers <= 1 else replicas,
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
    )
