"""What the handlers of the quorum's APIs share: the replica to ask, and whom a request is for."""

from collections.abc import Awaitable, Callable
from typing import TypeVar, cast

from penstock.broker.request.services import NodeServices
from penstock.model.error import RequestError
from penstock.raft.messages import Reply, Request
from penstock.raft.wire_form.envelope import MeantForOthers
from penstock.world.ports import Address

AnyReply = TypeVar("AnyReply")
Response = TypeVar("Response")


def ask_quorum(
    services: NodeServices,
    parse: Callable[[], Request],
    reply_type: type[AnyReply],
    respond: Callable[[AnyReply], Response],
    *,
    connection: Address | None = None,
) -> Awaitable[Response]:
    """Parses a request at once and passes it to this node's replica; its reply becomes a response.
    RequestError when the request is not meant for this quorum. `connection` is where a fetch came
    from.
    """
    try:
        request = parse()
    except MeantForOthers as error:
        raise RequestError(error.code, str(error)) from error
    reply = services.quorum.receive(request, connection)

    async def finish() -> Response:
        answered: Reply = await reply
        assert isinstance(answered, reply_type), answered
        return respond(cast("AnyReply", answered))

    return finish()
