"""What the handlers that change the voters share: the leader makes the change and waits for it."""

from collections.abc import Callable

from penstock.broker.controller.quorum_driver import LeadershipLost
from penstock.broker.request.services import NodeServices
from penstock.model.error import ErrorCode, RequestError
from penstock.raft.replica import Replica
from penstock.raft.voter_changes import ChangeRefused, VoterChange
from penstock.wire.messages.endpoints import NamedEndpoint

CHANGE_WAIT_MS = 15_000  # where the request does not say how long
CHANGE_WAIT_MS_MAX = 120_000

CODES = {
    ChangeRefused.NOT_LEADER: ErrorCode.NOT_CONTROLLER,
    ChangeRefused.FIXED_VOTERS: ErrorCode.UNSUPPORTED_VERSION,
    ChangeRefused.EPOCH_NOT_COMMITTED: ErrorCode.REQUEST_TIMED_OUT,
    ChangeRefused.CHANGE_PENDING: ErrorCode.REQUEST_TIMED_OUT,
    ChangeRefused.DUPLICATE_VOTER: ErrorCode.DUPLICATE_VOTER,
    ChangeRefused.VOTER_NOT_FOUND: ErrorCode.VOTER_NOT_FOUND,
    ChangeRefused.NOT_CAUGHT_UP: ErrorCode.REQUEST_TIMED_OUT,
    ChangeRefused.LAST_VOTER: ErrorCode.INVALID_REQUEST,
    ChangeRefused.VOTERS_UNSAID: ErrorCode.INVALID_UPDATE_VERSION,
    ChangeRefused.VERSION_NOT_SUPPORTED: ErrorCode.INVALID_REQUEST,
    ChangeRefused.UPGRADED: ErrorCode.INVALID_UPDATE_VERSION,
}
assert set(CODES) == set(ChangeRefused)


async def change_voters(
    services: NodeServices,
    change: Callable[[Replica, int], VoterChange | ChangeRefused],
    *,
    wait_ms_max: int = CHANGE_WAIT_MS,
    until_committed: bool = True,
) -> None:
    """RequestError when the voters are not changed, or may not be."""
    try:
        refused = await services.quorum.change_voters(
            change,
            wait_ms_max=min(max(0, wait_ms_max), CHANGE_WAIT_MS_MAX),
            until_committed=until_committed,
        )
    except TimeoutError as error:
        raise RequestError(
            ErrorCode.REQUEST_TIMED_OUT, "The change of the voters is not committed yet."
        ) from error
    except LeadershipLost as error:
        raise RequestError(ErrorCode.NOT_CONTROLLER, str(error)) from error
    if refused is not None:
        raise RequestError(CODES[refused], f"{refused.value[:1].upper()}{refused.value[1:]}.")


def check_request(
    services: NodeServices, cluster_id: str | None, listeners: list[NamedEndpoint] | None
) -> None:
    """RequestError for a request to another cluster, or for a voter that could not be reached."""
    if cluster_id is not None and cluster_id != services.cluster_id:
        raise RequestError(
            ErrorCode.INCONSISTENT_CLUSTER_ID, f"This cluster has the id {services.cluster_id}."
        )
    if listeners is None:
        return
    needed = services.quorum.member.listener
    if not any(one.name.upper() == needed.upper() and one.port > 0 for one in listeners):
        raise RequestError(
            ErrorCode.INVALID_REQUEST, f"The voter has no listener {needed} among its endpoints."
        )
