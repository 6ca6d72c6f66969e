"""ListTransactions: the transactional ids that this broker coordinates."""

from penstock.broker.request.api_table import Api
from penstock.broker.request.context import RequestContext
from penstock.broker.request.services import Services
from penstock.model.error import ErrorCode, RequestError
from penstock.model.regex.pattern import compile_pattern
from penstock.model.regex.syntax import InvalidRegex
from penstock.transactions.describe import filters_of, listed_together
from penstock.wire.api import ApiKey
from penstock.wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)


async def handle(
    services: Services, request: ListTransactionsRequest, context: RequestContext
) -> ListTransactionsResponse:
    filters = filters_of(request)
    try:
        if request.transactional_id_pattern:
            pattern = compile_pattern(request.transactional_id_pattern)
            pattern.begin()
            filters = filters_of(request, matches=pattern.matches)
        version = context.header.api_version
        replies = await services.transactions.list_all(filters, version=version)
    except InvalidRegex as error:
        raise RequestError(ErrorCode.INVALID_REGULAR_EXPRESSION, str(error)) from error
    return listed_together(filters, replies)


def refuse(
    request: ListTransactionsRequest, code: ErrorCode, message: str | None
) -> ListTransactionsResponse:
    return ListTransactionsResponse(error_code=code)


API = Api(
    key=ApiKey.LIST_TRANSACTIONS,
    versions=ListTransactionsRequest.VERSIONS,
    request=ListTransactionsRequest,
    handle=handle,
    refuse=refuse,
)
