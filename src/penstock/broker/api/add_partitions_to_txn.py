"""AddPartitionsToTxn: partitions that a transaction is about to write to.

One partition that is not there keeps all others of its transaction out. So does one that is led in
another epoch than this node knows of: when a transaction is taken over (KIP-939), the leaders that
this node knows are told to stop its writer, and no other may have verified it.
"""

from collections.abc import Awaitable, Mapping, Sequence

from penstock.broker.coordinators.ask_each import ask_each
from penstock.broker.coordinators.fencing_log import Client
from penstock.broker.request.api_table import Api
from penstock.broker.request.context import RequestContext
from penstock.broker.request.services import Services
from penstock.broker.request.yielding import Steps, by_turns
from penstock.groups.partitioning import OFFSETS_TOPIC
from penstock.metadata.image.image import Image
from penstock.model.error import ErrorCode
from penstock.model.identity import TopicPartition
from penstock.model.topic_name import INTERNAL_TOPICS
from penstock.replication.leader import check_leader_epoch
from penstock.transactions.enlist import (
    BATCHED_FROM_VERSION,
    Enlist,
    Enlisted,
    enlist_reply,
    enlistments,
)
from penstock.wire.api import ApiKey
from penstock.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
)


def handle(
    services: Services, request: AddPartitionsToTxnRequest, context: RequestContext
) -> Awaitable[AddPartitionsToTxnResponse]:
    """Decided at once, before what comes behind it, but for those of very many partitions."""
    version = context.header.api_version
    asked = enlistments(request, version=version)
    by_client = version < BATCHED_FROM_VERSION
    looked = by_turns(
        _errors_in(services.image, asked, by_client=by_client),
        services.long_answers if by_client else None,
    )
    if isinstance(looked, list):
        return _reply(asked, _ask(services, asked, looked, context), version=version)
    return _looked_up(services, asked, looked, context)


async def _looked_up(
    services: Services,
    asked: Sequence[Enlist],
    looked: Awaitable[list[Enlisted | None]],
    context: RequestContext,
) -> AddPartitionsToTxnResponse:
    answers = _ask(services, asked, await looked, context)
    return await _reply(asked, answers, version=context.header.api_version)


def _ask(
    services: Services,
    asked: Sequence[Enlist],
    errors: Sequence[Enlisted | None],
    context: RequestContext,
) -> Awaitable[list[Enlisted]]:
    client = Client(context.header, context.peer)

    def ask(part: tuple[Enlist, Enlisted | None]) -> object:
        enlist, error = part
        if error is not None:
            return error
        return services.transactions.ask(
            enlist.transactional_id, enlist, version=context.header.api_version, client=client
        )

    parts = list(zip(asked, errors, strict=True))
    return ask_each(parts, ask, lambda part, code: refuse_one(part[0], code))


async def _reply(
    asked: Sequence[Enlist], waiting: Awaitable[list[Enlisted]], *, version: int
) -> AddPartitionsToTxnResponse:
    answers = await waiting
    return enlist_reply(
        [(enlist.transactional_id, answer) for enlist, answer in zip(asked, answers, strict=True)],
        version=version,
    )


def refuse(
    request: AddPartitionsToTxnRequest, code: ErrorCode, message: str | None
) -> AddPartitionsToTxnResponse:
    """In both forms: the one that the client's version does not have is left out."""
    [one] = enlistments(request, version=BATCHED_FROM_VERSION - 1)
    response = enlist_reply(
        [(one.transactional_id, refuse_one(one, code))], version=BATCHED_FROM_VERSION - 1
    )
    response.error_code = code
    return response


def refuse_one(enlist: Enlist, code: ErrorCode) -> Enlisted:
    return Enlisted(errors=dict.fromkeys(enlist.partitions, code), error=code)


def _errors_in(
    image: Image, asked: Sequence[Enlist], *, by_client: bool
) -> Steps[list[Enlisted | None]]:
    """For each the answer where a partition cannot be added; None when all can. A topic that is
    deleted meanwhile does no harm: it needs no marker.
    """
    answers: list[Enlisted | None] = []
    for enlist in asked:
        errors: dict[TopicPartition, ErrorCode | None] = {}
        for name in enlist.partitions:
            errors[name] = _error(
                image, name, by_client=by_client, leader_epoch=enlist.leader_epochs.get(name)
            )
            yield
        answers.append(_answer(errors))
    return answers


def _answer(errors: Mapping[TopicPartition, ErrorCode | None]) -> Enlisted | None:
    if not any(errors.values()):
        return None
    told = {name: error or ErrorCode.OPERATION_NOT_ATTEMPTED for name, error in errors.items()}
    return Enlisted(errors=told, error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def _error(
    image: Image, name: TopicPartition, *, by_client: bool, leader_epoch: int | None
) -> ErrorCode | None:
    """Clients write to no topic of the coordinators' own."""
    if name.topic in INTERNAL_TOPICS and (by_client or name.topic != OFFSETS_TOPIC):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    topic = image.topics_by_name.get(name.topic)
    if topic is None or not 0 <= name.partition < len(topic.partitions):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if leader_epoch is not None:
        code = check_leader_epoch(
            asked=leader_epoch, known=topic.partitions[name.partition].leader_epoch
        )
        return None if code is ErrorCode.NONE else code
    return None


API = Api(
    key=ApiKey.ADD_PARTITIONS_TO_TXN,
    versions=AddPartitionsToTxnRequest.VERSIONS,
    request=AddPartitionsToTxnRequest,
    handle=handle,
    refuse=refuse,
)
