"""How the rules of `table` are made, and how a request is answered under one.

A rule looks at a request before its handler does. It may

    raise RequestError       the whole request is refused
    take parts out of it     the handler answers what is left; the refused parts are added to its
                             reply, as the API itself refuses them (`Api.refuse`)
    return a `Complete`      it changes the reply, to hide what the client may not see

When all parts are refused, the handler is not asked at all.
"""

import copy
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from penstock.broker.request.api_table import AnyApi
from penstock.broker.request.context import RequestContext
from penstock.broker.request.pending_reply import PendingReply
from penstock.broker.request.produce_acks import ProduceAcks
from penstock.broker.request.services import NodeServices
from penstock.model.error import CloseConnection, ErrorCode, RequestError
from penstock.model.events import AUTHORIZATION_DENIED
from penstock.model.identity import NO_TOPIC_ID, TopicId
from penstock.security.acl.authorizer import Access
from penstock.security.acl.words import AclOperation, ResourceType
from penstock.wire.definition import Message
from penstock.world.event_log import tell

logger = logging.getLogger(__name__)

NO_REPLY: Final = "produce with acks=0 without the right to write"
CODES = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
MESSAGES = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Topic authorization failed.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Transactional Id authorization failed.",
}


class Asked:
    """One request, who sent it, and where it is to be answered. Its fields are not to be changed:
    it is no dataclass because one is made for each request, and the constructor of a dataclass
    stays in Python where this one is compiled.
    """

    __slots__ = ("access", "api", "context", "request", "services", "taken_from")

    def __init__(
        self,
        access: Access,
        services: NodeServices,
        request: Any,  # of the rule's own API
        context: RequestContext,
        api: AnyApi,
    ) -> None:
        self.access = access
        self.services = services
        self.request = request
        self.context = context
        self.api = api
        self.taken_from: list[tuple[str, object]] = []

    @property
    def version(self) -> int:
        return self.context.header.api_version

    def topic_name(self, topic_id: bytes) -> str | None:
        """None for an id that no topic has."""
        found = self.services.image.topics_by_id.get(TopicId(topic_id))
        return None if found is None else found.name

    def narrow(self, name: str, kept: object) -> None:
        """Leaves a part of one field in the request."""
        self.taken_from.append((name, getattr(self.request, name)))
        setattr(self.request, name, kept)

    def widen(self) -> None:
        """The request as it came: it is refused as a whole, for another reason."""
        for name, all_parts in self.taken_from:
            setattr(self.request, name, all_parts)


# Changes the reply in place.
Complete = Callable[[Any], None]
Rule = Callable[[Asked], Complete | Message | None]


class Unless:
    """A rule for all requests of an API but those that a look at the request shows to be free, or
    whose handler asks for the rights itself. For these nothing is made, since they are many.
    """

    __slots__ = ("_rule", "is_free")

    def __init__(self, is_free: Callable[[Any], bool], rule: Rule) -> None:
        self.is_free = is_free
        self._rule = rule

    def __call__(self, asked: Asked) -> Complete | Message | None:
        return None if self.is_free(asked.request) else self._rule(asked)


def answer_authorized(
    api: AnyApi, rule: Rule, services: Any, request: Message, context: RequestContext
) -> Message | Awaitable[Message] | PendingReply | None:
    """What `api.handle` returns, as far as the client has the rights; RequestError likewise."""
    if isinstance(rule, Unless) and rule.is_free(request):
        handled: Message | Awaitable[Message] | PendingReply | None
        handled = api.handle(services, request, context)
        return handled
    assert context.access is not None
    asked = Asked(context.access, services, request, context, api)
    try:
        complete = rule(asked)
    except RequestError as refusal:
        _log_denied(asked, refusal.code)
        raise
    if isinstance(complete, Message):
        return complete
    try:
        reply = api.handle(services, request, context)
    except RequestError:
        asked.widen()
        raise
    if complete is None:
        return reply
    if isinstance(reply, Message):
        complete(reply)
    elif isinstance(reply, ProduceAcks):
        complete(reply.response)  # encoded when its acks have come
    elif reply is None:
        raise CloseConnection(NO_REPLY)
    elif isinstance(reply, PendingReply):
        raise AssertionError(f"a reply of {api.key.name} that cannot be completed")
    else:
        return _complete_later(asked, reply, complete)
    return reply


async def _complete_later(asked: Asked, reply: Awaitable[Message], complete: Complete) -> Message:
    try:
        message = await reply
    except RequestError:
        asked.widen()
        raise
    complete(message)
    return message


def free(asked: Asked) -> None:
    """Everyone may ask this."""


def whole(*needs: Callable[[Asked], ErrorCode]) -> Rule:
    """The request is refused with the first need that is not met."""

    def rule(asked: Asked) -> None:
        for need in needs:
            code = need(asked)
            if code is not ErrorCode.NONE:
                raise RequestError(code, MESSAGES.get(code))

    return rule


def cluster(*operations: AclOperation) -> Callable[[Asked], ErrorCode]:
    """One of these operations on the cluster."""

    def need(asked: Asked) -> ErrorCode:
        if any(asked.access.may_cluster(operation) for operation in operations):
            return ErrorCode.NONE
        return ErrorCode.CLUSTER_AUTHORIZATION_FAILED

    return need


def named(
    operation: AclOperation, resource_type: ResourceType, field_name: str
) -> Callable[[Asked], ErrorCode]:
    """An operation on the resource that a field of the request names."""

    def need(asked: Asked) -> ErrorCode:
        return judge(asked, operation, resource_type, getattr(asked.request, field_name))

    return need


def judge(
    asked: Asked, operation: AclOperation, resource_type: ResourceType, name: str
) -> ErrorCode:
    may = asked.access.may(operation, resource_type, name)
    return ErrorCode.NONE if may else CODES[resource_type]


def parts(
    field: str, replies: str, judge_part: Callable[[Asked, Any], ErrorCode], *, before: Rule = free
) -> Rule:
    """Each part of a request, in the list `field`, is judged by itself; those that are refused are
    answered in the reply's list `replies`. `before` is asked first, about the whole request.
    """

    def rule(asked: Asked) -> Complete | Message | None:
        before(asked)
        return take_refused(asked, field, replies, judge_part)

    return rule


def take_refused(
    asked: Asked, field: str, replies: str, judge_part: Callable[[Asked, Any], ErrorCode]
) -> Complete | Message | None:
    """Leaves in the request what is permitted."""
    request = asked.request
    all_parts = getattr(request, field) or ()
    for part in all_parts:
        if judge_part(asked, part) is not ErrorCode.NONE:
            break
    else:
        return None  # as nearly always: nothing is made for it
    kept: list[Any] = []
    refused: dict[ErrorCode, list[Any]] = {}
    for part in all_parts:
        code = judge_part(asked, part)
        if code is ErrorCode.NONE:
            kept.append(part)
        else:
            refused.setdefault(code, []).append(part)
    for code in refused:
        _log_denied(asked, code)
    refusals = [_refuse(asked, field, code, of_code) for code, of_code in refused.items()]
    asked.narrow(field, kept)

    def complete(response: Message) -> None:
        together = [*getattr(response, replies)]
        for refusal in refusals:
            together += getattr(refusal, replies)
        setattr(response, replies, together)

    if kept:
        return complete
    if getattr(request, "acks", None) == 0:
        raise CloseConnection(NO_REPLY)
    only, *others = refusals
    for other in others:
        setattr(only, replies, [*getattr(only, replies), *getattr(other, replies)])
    if hasattr(only, "error_code"):
        only.error_code = ErrorCode.NONE  # the parts tell it
    return only


def _refuse(asked: Asked, field: str, code: ErrorCode, refused: Sequence[Any]) -> Message:
    request = copy.copy(asked.request)
    setattr(request, field, list(refused))
    refusal = asked.api.refuse(request, code, MESSAGES.get(code))
    assert isinstance(refusal, Message)
    return refusal


def topic_part(operation: AclOperation, field: str = "name") -> Callable[[Asked, Any], ErrorCode]:
    """A part that names its topic, or has its id. An id that no topic has is left to the handler,
    which says so: ids are no secret.
    """

    def judge_part(asked: Asked, part: Any) -> ErrorCode:
        name = getattr(part, field, None)
        topic_id: bytes = getattr(part, "topic_id", NO_TOPIC_ID)
        if not name and topic_id != NO_TOPIC_ID:
            name = asked.topic_name(topic_id)
            if name is None:
                return ErrorCode.NONE
        return judge(asked, operation, ResourceType.TOPIC, name or "")

    return judge_part


def name_part(
    operation: AclOperation, resource_type: ResourceType
) -> Callable[[Asked, str], ErrorCode]:
    """A part that is the name of a resource."""

    def judge_part(asked: Asked, part: str) -> ErrorCode:
        return judge(asked, operation, resource_type, part)

    return judge_part


def then(rule: Rule, complete: Callable[[Asked, Any], None]) -> Rule:
    """A rule, and a change of the reply after it."""

    def both(asked: Asked) -> Complete | Message | None:
        first = rule(asked)
        if isinstance(first, Message):
            return first

        def completed(response: Any) -> None:
            complete(asked, response)
            if first is not None:
                first(response)

        return completed

    return both


def _log_denied(asked: Asked, code: ErrorCode) -> None:
    context = asked.context
    if logger.isEnabledFor(AUTHORIZATION_DENIED.level):
        tell(
            logger,
            AUTHORIZATION_DENIED,
            principal=str(context.principal),
            host=context.peer.host,
            listener=context.listener,
            api=asked.api.key.name,
            code=code.name,
        )
