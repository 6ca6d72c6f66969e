"""The active controller, wherever it runs: asked in this process, or over a connection.

Requests of clients travel in an Envelope (KIP-590), those of the broker itself as they are. A reply
is returned once this node's own image shows what was done, so that whoever is told of a topic finds
it here. Another node says in its reply how far its image was: a tagged field of ours.

A request that a controller refuses because it is not the active one has done nothing, and is sent
to the next one until its time is over. One whose connection is lost, or whose controller is deposed
before it replied, may have been done. It is sent again if that does no harm, once there is a
controller of a later epoch: that one knows whether it was done. Otherwise the client is told to ask
again. So that a request which arrives late is not done after all, and after what the client asked
since, an envelope is for a controller in one epoch alone.
"""

import asyncio
import logging
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Any

from penstock.broker.controller.controller_link import ANSWER_WAIT_MS_MAX, Requester
from penstock.broker.controller.links import AnyReply, Lane, Links, NodeDown, NodeUnknown
from penstock.broker.controller.local_controller import LocalController
from penstock.client.network.errors import ClientError
from penstock.metadata.controller.decide import ControllerRequest
from penstock.metadata.image.image import Image
from penstock.model.error import ErrorCode, RequestError
from penstock.model.events import REQUEST_FORWARDED
from penstock.model.identity import TopicId, random_id
from penstock.model.offset import LeaderEpoch, Offset
from penstock.security.principal import ANONYMOUS, Principal
from penstock.wire.definition import Message
from penstock.wire.embedded import write_embedded
from penstock.wire.errors import MalformedMessage
from penstock.wire.header import decode_response, encode_request
from penstock.wire.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from penstock.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from penstock.wire.messages.alter_partition import (
    AlteredPartition,
    AlterPartitionRequest,
    AlterPartitionResponse,
)
from penstock.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from penstock.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from penstock.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)
from penstock.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from penstock.wire.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from penstock.wire.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from penstock.wire.messages.create_acls import CreateAclsRequest, CreateAclsResponse
from penstock.wire.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from penstock.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
)
from penstock.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from penstock.wire.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse
from penstock.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from penstock.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from penstock.wire.messages.envelope import DefaultPrincipalData, EnvelopeRequest, EnvelopeResponse
from penstock.wire.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from penstock.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from penstock.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from penstock.wire.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from penstock.wire.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from penstock.wire.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from penstock.world.event_log import tell
from penstock.world.ports import World

logger = logging.getLogger(__name__)

RETRY_WAIT_S = 0.02
LANE_WAIT_MS_MIN = 1_000
GRACE_MS = 5_000  # that a reply may be late before the connection is given up
EPOCH_WAIT_MS_MAX = 5_000
DELETION_BY_NAME_VERSION = 5  # later ones name topics otherwise
NO_CORRELATION_ID = 0  # the envelope has its own
DEPOSED = ErrorCode.NOT_LEADER_OR_FOLLOWER  # of an envelope
ANY_ADDRESS = bytes(4)

# Requests that are forwarded for clients, and those of brokers and controllers themselves.
FORWARDED: Mapping[type[Message], type[Message]] = {
    CreateTopicsRequest: CreateTopicsResponse,
    DeleteTopicsRequest: DeleteTopicsResponse,
    CreatePartitionsRequest: CreatePartitionsResponse,
    IncrementalAlterConfigsRequest: IncrementalAlterConfigsResponse,
    AlterConfigsRequest: AlterConfigsResponse,
    UnregisterBrokerRequest: UnregisterBrokerResponse,
    UpdateFeaturesRequest: UpdateFeaturesResponse,
    ElectLeadersRequest: ElectLeadersResponse,
    AlterPartitionReassignmentsRequest: AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsRequest: ListPartitionReassignmentsResponse,
    AlterUserScramCredentialsRequest: AlterUserScramCredentialsResponse,
    CreateAclsRequest: CreateAclsResponse,
    DeleteAclsRequest: DeleteAclsResponse,
    CreateDelegationTokenRequest: CreateDelegationTokenResponse,
    RenewDelegationTokenRequest: RenewDelegationTokenResponse,
    ExpireDelegationTokenRequest: ExpireDelegationTokenResponse,
}
DIRECT: Mapping[type[Message], type[Message]] = {
    BrokerRegistrationRequest: BrokerRegistrationResponse,
    BrokerHeartbeatRequest: BrokerHeartbeatResponse,
    AllocateProducerIdsRequest: AllocateProducerIdsResponse,
    ControllerRegistrationRequest: ControllerRegistrationResponse,
    AlterPartitionRequest: AlterPartitionResponse,
    AssignReplicasToDirsRequest: AssignReplicasToDirsResponse,
}
# A broker is known to live by the connection of its heartbeats.
HEARTBEATS = (BrokerRegistrationRequest, BrokerHeartbeatRequest)


# Done twice, they do no more than once, unless somebody else has undone them in between: there
# Apache Kafka does the same. A name may belong to another topic the second time, so that a deletion
# is not repeated.
REPEATABLE: tuple[type[Message], ...] = (
    CreateTopicsRequest,
    CreatePartitionsRequest,
    IncrementalAlterConfigsRequest,
    AlterConfigsRequest,
    UnregisterBrokerRequest,
    UpdateFeaturesRequest,
    ElectLeadersRequest,
    AlterPartitionReassignmentsRequest,
    ListPartitionReassignmentsRequest,
    AlterUserScramCredentialsRequest,
    CreateAclsRequest,
    DeleteAclsRequest,
    RenewDelegationTokenRequest,
    *DIRECT,
)


class _NotActive(Exception):
    """Nothing was done: another controller is to be asked."""


class _MayBeDone(Exception):
    """The controller went before it replied."""


class ActiveController:
    """A ControllerLink."""

    def __init__(self, *, local: LocalController, links: Links, world: World) -> None:
        self._local = local
        self._links = links
        self._world = world
        self._clock = world.clock

    async def ask(
        self,
        request: ControllerRequest,
        *,
        wait_ms_max: int = ANSWER_WAIT_MS_MAX,
        requester: Requester | None = None,
    ) -> Any:
        """See ControllerLink, whose overloads give the reply's type."""
        deadline_ms = self._clock.monotonic_ms() + wait_ms_max
        if isinstance(request, CreateTopicsRequest):
            for topic in request.topics:
                topic.proposed_id = random_id(self._world.entropy.random_bytes)
        while True:
            epoch = self._local.quorum.replica.epoch
            try:
                return await self._ask_once(request, requester, deadline_ms)
            except _NotActive as error:
                await self._wait_for_another(error, deadline_ms)
            except _MayBeDone as error:
                if not isinstance(request, REPEATABLE):
                    raise RequestError(ErrorCode.NOT_CONTROLLER, str(error)) from error
                await self._wait_for_epoch_after(epoch, error, deadline_ms)

    async def forward(
        self,
        request: Message,
        reply_type: type[AnyReply],
        *,
        wait_ms_max: int = ANSWER_WAIT_MS_MAX,
        requester: Requester | None = None,
    ) -> AnyReply:
        """See ControllerLink."""
        deadline_ms = self._clock.monotonic_ms() + wait_ms_max
        while True:
            try:
                return await self._forward(request, reply_type, requester, deadline_ms)
            except (_NotActive, _MayBeDone) as error:
                leader_id = self._local.leader_id
                if leader_id is not None and self._local.is_own(leader_id):
                    # Nobody else is going to lead: whoever asks again is answered here.
                    raise RequestError(
                        ErrorCode.NOT_CONTROLLER, "this node was elected meanwhile"
                    ) from error
                await self._wait_for_another(error, deadline_ms)

    async def image_reaches(self, offset: Offset, *, deadline_ms: int) -> bool:
        """Waits until this node's image has come so far; False when the time is over."""
        while self._local.image.offset < offset:
            if not await self._change_before(deadline_ms):
                return False
        return True

    async def _ask_once(
        self, request: ControllerRequest, requester: Requester | None, deadline_ms: int
    ) -> Any:
        if self._local.is_active:
            try:
                return await self._local.ask(
                    request, wait_ms_max=self._left_ms(deadline_ms), requester=requester
                )
            except RequestError as refusal:
                if refusal.code == ErrorCode.NOT_CONTROLLER:
                    raise _MayBeDone("this controller was deposed meanwhile") from refusal
                raise
        assert isinstance(request, Message)
        reply_type = DIRECT.get(type(request))
        if reply_type is not None:
            return await self._ask_directly(request, reply_type, deadline_ms)
        return await self._forward(request, FORWARDED[type(request)], requester, deadline_ms)

    async def _ask_directly(
        self, request: Message, reply_type: type[AnyReply], deadline_ms: int
    ) -> AnyReply:
        lane = Lane.HEARTBEATS if isinstance(request, HEARTBEATS) else Lane.FORWARDING
        if isinstance(request, AlterPartitionRequest):
            lane = Lane.IN_SYNC  # acks wait for it
        reply = await self._ask_leader(request, reply_type, lane, deadline_ms)
        code: int = getattr(reply, "error_code", ErrorCode.NONE)
        if code == ErrorCode.NOT_CONTROLLER:
            raise _NotActive
        if code != ErrorCode.NONE:
            raise RequestError(_known(code), getattr(reply, "error_message", None))
        if isinstance(reply, AlterPartitionResponse):
            await self._image_shows(reply, deadline_ms)
        return reply

    async def _image_shows(self, reply: AlterPartitionResponse, deadline_ms: int) -> None:
        """Waits until the image has the new in-sync sets. A setting that was changed before, such
        as `min.insync.replicas`, is then known, too: the leader must not judge by an older one.
        """
        while not all(
            _has(self._local.image, TopicId(topic.topic_id), partition)
            for topic in reply.topics
            for partition in topic.partitions
        ):
            if not await self._change_before(deadline_ms):
                raise RequestError(
                    ErrorCode.REQUEST_TIMED_OUT, "the change has not reached this node in time"
                )

    async def _forward(
        self,
        request: Message,
        reply_type: type[AnyReply],
        requester: Requester | None,
        deadline_ms: int,
    ) -> AnyReply:
        version = _version_of(request)
        parts = encode_request(
            request,
            version=version,
            correlation_id=NO_CORRELATION_ID if requester is None else requester.correlation_id,
            client_id=None if requester is None else requester.client_id,
        )
        if requester is not None:
            tell(
                logger,
                REQUEST_FORWARDED,
                api=type(request).__name__.removesuffix("Request"),
                to=self._local.leader_id,
                client_id=requester.client_id,
                client_host=requester.host,
                correlation_id=requester.correlation_id,
            )
        envelope = EnvelopeRequest(
            request_data=_without_size(parts),
            request_principal=NOBODY if requester is None else principal_data(requester.principal),
            client_host_address=ANY_ADDRESS if requester is None else packed(requester.host),
            from_node=requester is None,
            controller_epoch=self._local.quorum.replica.epoch,
        )
        answer = await self._ask_leader(envelope, EnvelopeResponse, Lane.FORWARDING, deadline_ms)
        if answer.error_code == ErrorCode.NOT_CONTROLLER:
            raise _NotActive
        if answer.error_code == DEPOSED:
            raise _MayBeDone("the controller was deposed meanwhile")
        if answer.error_code != ErrorCode.NONE or answer.response_data is None:
            raise RequestError(_known(answer.error_code))
        try:
            reply = decode_response(reply_type, version, memoryview(answer.response_data))
        except MalformedMessage as error:
            raise RequestError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from error
        # When the time is over first, the controller's reply is passed on as it is.
        await self.image_reaches(Offset(answer.metadata_offset), deadline_ms=deadline_ms)
        return reply

    async def _ask_leader(
        self, request: Message, reply_type: type[AnyReply], lane: Lane, deadline_ms: int
    ) -> AnyReply:
        """The reply of the leader that is known now. _NotActive when it was not even asked."""
        leader_id = self._local.leader_id
        if leader_id is None or self._local.is_own(leader_id):
            raise _NotActive
        # One caller who is in a hurry does not close the connection for the others.
        lane_wait_ms = max(self._left_ms(deadline_ms), LANE_WAIT_MS_MIN) + GRACE_MS
        asking = asyncio.ensure_future(
            self._links.ask(leader_id, request, reply_type, lane=lane, timeout_ms=lane_wait_ms)
        )
        try:
            while not asking.done() and self._local.leader_id == leader_id:
                change = asyncio.ensure_future(self._local.next_change.wait())
                try:
                    await asyncio.wait(
                        (asking, change),
                        timeout=self._left_ms(deadline_ms) / 1000,
                        return_when=asyncio.FIRST_COMPLETED,
                    )
                finally:
                    change.cancel()
                if not asking.done() and self._left_ms(deadline_ms) == 0:
                    raise RequestError(
                        ErrorCode.REQUEST_TIMED_OUT,
                        f"controller {leader_id} has not answered in time",
                    )
            if not asking.done():
                raise _MayBeDone(f"controller {leader_id} was deposed meanwhile")
            return asking.result()
        except (NodeDown, NodeUnknown) as error:
            raise _NotActive from error
        except ClientError as error:
            raise _MayBeDone(str(error)) from error
        finally:
            # It goes on until its own time is over, which then closes the lane. Nothing else would
            # do that where the other end is gone without a word.
            asking.add_done_callback(_forget)

    async def _wait_for_epoch_after(
        self, epoch: LeaderEpoch, error: _MayBeDone, deadline_ms: int
    ) -> None:
        """RequestError when the controller seems to be the same as before."""
        soon_ms = self._clock.monotonic_ms() + EPOCH_WAIT_MS_MAX
        while self._local.quorum.replica.epoch <= epoch:
            if not await self._change_before(min(deadline_ms, soon_ms)):
                raise RequestError(ErrorCode.NOT_CONTROLLER, str(error)) from error

    async def _wait_for_another(self, error: Exception, deadline_ms: int) -> None:
        """Until there may be another active controller. RequestError when the time is over."""
        if self._left_ms(deadline_ms) == 0:
            raise RequestError(ErrorCode.REQUEST_TIMED_OUT, "no controller is active") from error
        soon_ms = self._clock.monotonic_ms() + int(RETRY_WAIT_S * 1000)
        await self._change_before(min(deadline_ms, soon_ms))

    async def _change_before(self, deadline_ms: int) -> bool:
        try:
            async with asyncio.timeout(self._left_ms(deadline_ms) / 1000):
                await self._local.change()
        except TimeoutError:
            return False
        return True

    def _left_ms(self, deadline_ms: int) -> int:
        return max(0, deadline_ms - self._clock.monotonic_ms())


def principal_data(principal: Principal) -> bytes:
    data = DefaultPrincipalData(
        type=principal.kind,
        name=principal.name,
        token_authenticated=principal.token_authenticated,
    )
    return write_embedded(data, version=0)


NOBODY = principal_data(ANONYMOUS)  # of what a node asks for itself


def packed(host: str) -> bytes:
    """An address in 4 or 16 bytes; a host that is no address is any."""
    try:
        return ip_address(host).packed
    except ValueError:
        return ANY_ADDRESS


def _has(image: Image, topic_id: TopicId, altered: AlteredPartition) -> bool:
    topic = image.topics_by_id.get(topic_id)
    if altered.error_code != ErrorCode.NONE or topic is None:
        return True  # nothing was changed, or the topic is gone
    if altered.partition_index >= len(topic.partitions):
        return False
    partition = topic.partitions[altered.partition_index]
    return partition.partition_epoch >= altered.partition_epoch


def _version_of(request: Message) -> int:
    """The latest one that can say what the request says."""
    if isinstance(request, DeleteTopicsRequest) and request.topic_names:
        return DELETION_BY_NAME_VERSION
    return request.VERSIONS.max


def _forget(asking: "asyncio.Future[Any]") -> None:
    """Nobody waits for it any more, so nobody is told of its failure."""
    if not asking.cancelled():
        asking.exception()


def _without_size(parts: list[Any]) -> bytes:
    return b"".join(parts)[4:]


def _known(code: int) -> ErrorCode:
    try:
        return ErrorCode(code)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR
