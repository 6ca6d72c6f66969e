"""Who belongs to a cluster: brokers are unregistered, voters added and removed, features upgraded.

Brokers pass all of it on to the active controller. Voters change one at a time (KIP-853), so that a
change is asked for again while another one, or an election, is under way.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

from penstock.client.admin.quorum import describe_quorum
from penstock.client.network.cluster import AnyReply, Cluster
from penstock.client.network.errors import Refused, error_code
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId
from penstock.model.lazy_dataclass import dataclass
from penstock.wire.definition import Message
from penstock.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from penstock.wire.messages.endpoints import NamedEndpoint
from penstock.wire.messages.remove_raft_voter import (
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
)
from penstock.wire.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from penstock.wire.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

WAIT_MS_DEFAULT = 30_000
# Another change or an election is under way, or the new voter has not caught up yet.
RETRIED = frozenset(
    {
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewVoter:
    """A controller that is to vote, by its directory, and where other nodes reach it."""

    node_id: NodeId
    directory_id: bytes
    listeners: Sequence[NamedEndpoint]


async def unregister_broker(cluster: Cluster, node: NodeId) -> None:
    reply = await cluster.ask_any(UnregisterBrokerRequest(broker_id=node), UnregisterBrokerResponse)
    _check(reply.error_code, f"broker {node}", reply.error_message)


async def add_voter(
    cluster: Cluster,
    voter: NewVoter,
    *,
    at_controllers: bool = False,
    wait_ms_max: int = WAIT_MS_DEFAULT,
) -> None:
    """Asked again until the controller has caught up; Refused with why it was not added."""

    async def ask() -> None:
        request = AddRaftVoterRequest(
            timeout_ms=cluster.rules.request_ms_max,
            voter_id=voter.node_id,
            voter_directory_id=voter.directory_id,
            listeners=list(voter.listeners),
        )
        reply = await _ask(cluster, request, AddRaftVoterResponse, at_controllers=at_controllers)
        _check(reply.error_code, f"controller {voter.node_id}", reply.error_message)

    async def is_done() -> bool:
        quorum = await describe_quorum(cluster, at_controllers=at_controllers)
        return (voter.node_id, voter.directory_id) in [
            (one.node_id, one.directory_id) for one in quorum.voters
        ]

    await _repeated(cluster, ask, is_done, wait_ms_max=wait_ms_max)


async def remove_voter(
    cluster: Cluster,
    node: NodeId,
    directory_id: bytes,
    *,
    at_controllers: bool = False,
    wait_ms_max: int = WAIT_MS_DEFAULT,
) -> None:
    """Refused with why it was not removed."""

    async def ask() -> None:
        request = RemoveRaftVoterRequest(voter_id=node, voter_directory_id=directory_id)
        reply = await _ask(cluster, request, RemoveRaftVoterResponse, at_controllers=at_controllers)
        _check(reply.error_code, f"controller {node}", reply.error_message)

    async def is_done() -> bool:
        quorum = await describe_quorum(cluster, at_controllers=at_controllers)
        return (node, directory_id) not in [
            (one.node_id, one.directory_id) for one in quorum.voters
        ]

    await _repeated(cluster, ask, is_done, wait_ms_max=wait_ms_max)


async def upgrade_features(
    cluster: Cluster, levels: Mapping[str, int], *, validate_only: bool = False
) -> None:
    """All of them, or Refused with why none is."""
    request = UpdateFeaturesRequest(
        timeout_ms=cluster.rules.request_ms_max,
        feature_updates=[
            FeatureUpdateKey(feature=name, max_version_level=level)
            for name, level in levels.items()
        ],
        validate_only=validate_only,
    )
    reply = await cluster.ask_any(request, UpdateFeaturesResponse)
    _check(reply.error_code, "", reply.error_message)
    for told in reply.results:  # of brokers before 4.0
        _check(told.error_code, told.feature, told.error_message)


async def _repeated(
    cluster: Cluster,
    ask: Callable[[], Awaitable[None]],
    is_done: Callable[[], Awaitable[bool]],
    *,
    wait_ms_max: int,
) -> None:
    """Asks until it is done. A request that was refused for now may have been done all the same,
    and brokers repeat one whose reply was lost: a refusal is no failure if the change was not done
    when it was asked for, and is done now.
    """
    deadline_ms = cluster.clock.monotonic_ms() + wait_ms_max
    was_done: bool | None = None
    while True:
        try:
            if was_done is None:
                was_done = await is_done()
            await ask()
        except Refused as refusal:
            if was_done is False and refusal.code not in RETRIED and await is_done():
                return
            if refusal.code not in RETRIED or cluster.clock.monotonic_ms() >= deadline_ms:
                raise
        else:
            return
        await asyncio.sleep(cluster.rules.backoff_ms / 1000)


async def _ask(
    cluster: Cluster, request: Message, reply_type: type[AnyReply], *, at_controllers: bool
) -> AnyReply:
    if not at_controllers:
        return await cluster.ask_any(request, reply_type)
    await cluster.refresh_controllers()
    return await cluster.ask_controller(request, reply_type)


def _check(code: int, about: str, message: str | None) -> None:
    found = error_code(code)
    if found != ErrorCode.NONE:
        raise Refused(found, about, message)
