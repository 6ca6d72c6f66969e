"""`__consumer_offsets` is made when it is first needed."""

import asyncio

from penstock.broker.controller_link import ControllerLink
from penstock.groups.partitioning import OFFSETS_TOPIC
from penstock.metadata.image.image import Image
from penstock.model.error import ErrorCode, RequestError
from penstock.model.settings.groups import GroupSettings
from penstock.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)

CREATION_WAIT_MS_MAX = 5_000
THERE = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)


class OffsetsTopic:
    """However many ask for it at once, the controller is asked once."""

    def __init__(self, controller: ControllerLink) -> None:
        self._controller = controller
        self._creating: asyncio.Future[None] | None = None

    async def create(self, image: Image, settings: GroupSettings) -> None:
        """Returns when the image shows the topic. RequestError when it could not be made."""
        if self._creating is None:
            creating = asyncio.ensure_future(self._ask(creation(image, settings)))
            creating.add_done_callback(self._created)
            self._creating = creating
        await asyncio.shield(self._creating)

    async def _ask(self, request: CreateTopicsRequest) -> None:
        answer = await self._controller.ask(request, wait_ms_max=CREATION_WAIT_MS_MAX)
        (result,) = answer.topics
        if result.error_code not in THERE:
            raise RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE, result.error_message)

    def _created(self, creating: asyncio.Future[None]) -> None:
        self._creating = None
        if not creating.cancelled():
            creating.exception()  # those who wait for it raise it


def creation(image: Image, settings: GroupSettings) -> CreateTopicsRequest:
    """Compacted, in small segments. A cluster that has fewer brokers than the replicas that are
    wanted gets as many as it can have: groups should work there too.
    """
    replicas = min(settings.offsets_topic_replication_factor, max(len(image.brokers), 1))
    configs = {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": str(settings.offsets_topic_segment_bytes),
    }
    return CreateTopicsRequest(
        topics=[
            CreatableTopic(
                name=OFFSETS_TOPIC,
                num_partitions=settings.offsets_topic_num_partitions,
                replication_factor=replicas,
                configs=[
                    CreatableTopicConfig(name=name, value=value) for name, value in configs.items()
                ],
            )
        ],
        timeout_ms=CREATION_WAIT_MS_MAX,
    )
