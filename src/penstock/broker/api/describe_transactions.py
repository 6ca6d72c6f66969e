"""DescribeTransactions: what the coordinator knows of some transactional ids."""

from penstock.broker.coordinators.ask_each import ask_each
from penstock.broker.request.api_table import Api
from penstock.broker.request.context import RequestContext
from penstock.broker.request.services import Services
from penstock.model.error import ErrorCode
from penstock.transactions.describe import DescribeTransaction
from penstock.wire.api import ApiKey
from penstock.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)


async def handle(
    services: Services, request: DescribeTransactionsRequest, context: RequestContext
) -> DescribeTransactionsResponse:
    """An id named many times is described once."""
    version = context.header.api_version
    states: list[TransactionState] = await ask_each(
        list(dict.fromkeys(request.transactional_ids)),
        lambda name: services.transactions.read(
            name, DescribeTransaction(transactional_id=name), version=version
        ),
        refuse_one,
    )
    return DescribeTransactionsResponse(transaction_states=states)


def refuse(
    request: DescribeTransactionsRequest, code: ErrorCode, message: str | None
) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        transaction_states=[refuse_one(name, code) for name in request.transactional_ids]
    )


def refuse_one(transactional_id: str, code: ErrorCode) -> TransactionState:
    return TransactionState(transactional_id=transactional_id, error_code=code)


API = Api(
    key=ApiKey.DESCRIBE_TRANSACTIONS,
    versions=DescribeTransactionsRequest.VERSIONS,
    request=DescribeTransactionsRequest,
    handle=handle,
    refuse=refuse,
)
