"""A topic of the coordinators' own is made when it is first needed."""

import asyncio

from penstock.broker.controller.controller_link import ControllerLink
from penstock.model.error import ErrorCode, RequestError
from penstock.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)

CREATION_WAIT_MS_MAX = 5_000
THERE = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)


class InternalTopic:
    """However many ask for it at once, the controller is asked once."""

    def __init__(self, controller: ControllerLink) -> None:
        self._controller = controller
        self._creating: asyncio.Future[None] | None = None

    async def create(self, wanted: CreatableTopic) -> None:
        """Returns when the image shows the topic. RequestError when it could not be made."""
        if self._creating is None:
            creating = asyncio.ensure_future(self._ask(wanted))
            creating.add_done_callback(self._created)
            self._creating = creating
        await asyncio.shield(self._creating)

    async def _ask(self, wanted: CreatableTopic) -> None:
        request = CreateTopicsRequest(topics=[wanted], timeout_ms=CREATION_WAIT_MS_MAX)
        answer = await self._controller.ask(request, wait_ms_max=CREATION_WAIT_MS_MAX)
        (result,) = answer.topics
        if result.error_code not in THERE:
            raise RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE, result.error_message)

    def _created(self, creating: asyncio.Future[None]) -> None:
        self._creating = None
        if not creating.cancelled():
            creating.exception()  # those who wait for it raise it


def internal_topic(
    name: str, *, partitions: int, replicas: int, brokers: int, configs: dict[str, str]
) -> CreatableTopic:
    """A cluster that has fewer brokers than the replicas that are wanted gets as many as it can
    have: groups and transactions should work there too.
    """
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=min(replicas, max(brokers, 1)),
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
    )
