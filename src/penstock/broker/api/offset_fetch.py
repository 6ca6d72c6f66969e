"""OffsetFetch: the offsets that groups have committed, asked of one group or of many."""

from collections.abc import Awaitable

from penstock.broker.coordinators.ask_each import ask_each
from penstock.broker.request.api_table import Api
from penstock.broker.request.context import RequestContext
from penstock.broker.request.services import Services
from penstock.groups.offsets.transactional import FetchStableOffsets
from penstock.model.error import ErrorCode
from penstock.wire.api import ApiKey
from penstock.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)

MANY_GROUPS_FROM = 8
GROUP_ERROR_FROM = 2  # before, the error of a group is told of each of its partitions
NO_OFFSET = -1


def handle(
    services: Services, request: OffsetFetchRequest, context: RequestContext
) -> Awaitable[OffsetFetchResponse]:
    many = context.header.api_version >= MANY_GROUPS_FROM
    asked: Awaitable[list[OffsetFetchResponseGroup]] = ask_each(
        _without_repeats(request.groups) if many else [_only_group(request)],
        lambda group: services.groups.read(
            group.group_id,
            FetchStableOffsets(request=group) if request.require_stable else group,
            context,
        ),
        refuse_group,
    )
    return _fetched(asked, request, version=context.header.api_version)


async def _fetched(
    asked: Awaitable[list[OffsetFetchResponseGroup]], request: OffsetFetchRequest, *, version: int
) -> OffsetFetchResponse:
    groups = await asked
    if version >= MANY_GROUPS_FROM:
        return OffsetFetchResponse(groups=groups)
    return _of_one_group(groups[0], request, version)


def refuse(
    request: OffsetFetchRequest, code: ErrorCode, message: str | None
) -> OffsetFetchResponse:
    """In the forms of all versions: fields that the client's version lacks are left out."""
    return OffsetFetchResponse(
        error_code=code,
        topics=_refused_topics(request, code),
        groups=[refuse_group(group, code) for group in request.groups],
    )


def refuse_group(group: OffsetFetchRequestGroup, code: ErrorCode) -> OffsetFetchResponseGroup:
    return OffsetFetchResponseGroup(group_id=group.group_id, error_code=code)


def _without_repeats(groups: list[OffsetFetchRequestGroup]) -> list[OffsetFetchRequestGroup]:
    """A few bytes ask for all that a group has committed: not again and again in one request."""
    asked: set[str] = set()
    once = []
    for group in groups:
        if group.topics is None:
            if group.group_id in asked:
                continue
            asked.add(group.group_id)
        once.append(group)
    return once


def _only_group(request: OffsetFetchRequest) -> OffsetFetchRequestGroup:
    """The request of old versions in the form of the new ones."""
    topics = None
    if request.topics is not None:
        topics = [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        ]
    return OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)


def _of_one_group(
    group: OffsetFetchResponseGroup, request: OffsetFetchRequest, version: int
) -> OffsetFetchResponse:
    if group.error_code != ErrorCode.NONE and version < GROUP_ERROR_FROM:
        return OffsetFetchResponse(topics=_refused_topics(request, group.error_code))
    return OffsetFetchResponse(
        error_code=group.error_code,
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=partition.partition_index,
                        committed_offset=partition.committed_offset,
                        committed_leader_epoch=partition.committed_leader_epoch,
                        metadata=partition.metadata,
                        error_code=partition.error_code,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in group.topics
        ],
    )


def _refused_topics(request: OffsetFetchRequest, code: int) -> list[OffsetFetchResponseTopic]:
    return [
        OffsetFetchResponseTopic(
            name=topic.name,
            partitions=[
                OffsetFetchResponsePartition(
                    partition_index=index,
                    committed_offset=NO_OFFSET,
                    metadata="",
                    error_code=code,
                )
                for index in topic.partition_indexes
            ],
        )
        for topic in request.topics or ()
    ]


API = Api(
    key=ApiKey.OFFSET_FETCH,
    versions=OffsetFetchRequest.VERSIONS,
    request=OffsetFetchRequest,
    handle=handle,
    refuse=refuse,
)
