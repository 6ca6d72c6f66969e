"""Whether the transactions of a sink may wait for the decision without a time-out (KIP-939)."""

import logging

from penstock.client.admin.transactions import reclaim
from penstock.client.network.cluster import Cluster
from penstock.client.network.errors import Refused, UnsupportedByBroker
from penstock.model.error import ErrorCode
from penstock.spark.sink.errors import NoTwoPhase
from penstock.spark.sink.names import probe_id
from penstock.spark.sink.options import TwoPhase

REFUSALS = frozenset(
    {
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.INVALID_REQUEST,
    }
)
ALLOWING = "penstock serve --set transaction.two.phase.commit.enable=true"
logger = logging.getLogger(__name__)


async def has_two_phase(cluster: Cluster, sink: str, wish: TwoPhase) -> bool:
    """Whether transactions of the sink will wait without a time-out."""
    if wish is TwoPhase.OFF:
        return False
    try:
        await reclaim(cluster, probe_id(sink))
    except (UnsupportedByBroker, Refused) as refused:
        if isinstance(refused, Refused) and refused.code not in REFUSALS:
            raise
        if wish is TwoPhase.REQUIRED:
            raise NoTwoPhase(
                f"sink {sink}: option twoPhase is required, and the brokers refuse it; Penstock"
                f" nodes allow it that are started with `{ALLOWING}`: {refused}"
            ) from refused
        return False
    return True


def warn_of_time_out(sink: str) -> None:
    """For a user who has not turned two-phase commit off; once for each run."""
    logger.warning(
        "sink=%s: prepared transactions have a time-out, because two-phase commit is not allowed;"
        " Penstock nodes allow it that are started with `%s`",
        sink,
        ALLOWING,
    )
