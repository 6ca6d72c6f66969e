"""EndTxn: a producer commits or aborts its transaction."""

from collections.abc import Awaitable

from penstock.broker.coordinators.fencing_log import Client
from penstock.broker.request.api_table import Api
from penstock.broker.request.context import RequestContext
from penstock.broker.request.services import Services
from penstock.model.error import ErrorCode
from penstock.wire.api import ApiKey
from penstock.wire.messages.end_txn import EndTxnRequest, EndTxnResponse


def handle(
    services: Services, request: EndTxnRequest, context: RequestContext
) -> EndTxnResponse | Awaitable[EndTxnResponse]:
    reply: EndTxnResponse | Awaitable[EndTxnResponse] = services.transactions.ask(
        request.transactional_id,
        request,
        version=context.header.api_version,
        client=Client(context.header, context.peer),
    )
    return reply


def refuse(request: EndTxnRequest, code: ErrorCode, message: str | None) -> EndTxnResponse:
    return EndTxnResponse(error_code=code)


API = Api(
    key=ApiKey.END_TXN,
    versions=EndTxnRequest.VERSIONS,
    request=EndTxnRequest,
    handle=handle,
    refuse=refuse,
)
