"""The same requests under the same rights, at a broker with an authorizer: what it answers.

Every API is asked about things that do not exist, or about a topic that does, in ways that change
nothing of it that matters: the next request finds the broker as this one did.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from penstock.broker.network.dispatch import is_served
from penstock.broker.request.api_table import AnyApi
from penstock.model.configs import ResourceKind
from penstock.model.error import ErrorCode
from penstock.model.identity import NO_TOPIC_ID
from penstock.security.acl.entry import Acl
from penstock.security.acl.filter import AclFilter
from penstock.security.acl.messages import creation_of, deletion_filter
from penstock.security.acl.words import CLUSTER_NAME, AclOperation, ResourceType
from penstock.wire.api import ApiKey
from penstock.wire.definition import Field, Message, Struct
from penstock.wire.embedded import write_embedded
from penstock.wire.header import encode_request
from penstock.wire.messages.create_acls import CreateAclsRequest
from penstock.wire.messages.create_topics import CreateTopicsRequest
from penstock.wire.messages.delete_acls import DeleteAclsRequest
from penstock.wire.messages.envelope import DefaultPrincipalData, EnvelopeRequest
from penstock.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from penstock.wire.messages.sasl_handshake import SaslHandshakeRequest
from rig.authorised_node import allow
from rig.dialogue import Dialogue
from rig.produced import produced
from rig.requests_of_apis import full_request

TOPIC_ID = "topic_id"  # of fields, wherever there is one
NAME = "name"  # of everything that the generated requests name
CLOSED = "closed"  # the connection, in place of an answer
SERVED = "served"  # or refused for another reason than rights
DENIALS = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ErrorCode.SECURITY_DISABLED,
}
Right = tuple[AclOperation, ResourceType]
# Topics are named by ids from then on, which no topic has: there is nothing to ask a right for.
BY_NAME_UP_TO = {
    ApiKey.PRODUCE: 12,
    ApiKey.FETCH: 12,
    ApiKey.METADATA: 9,
    ApiKey.OFFSET_COMMIT: 9,
    ApiKey.OFFSET_FETCH: 9,
    ApiKey.DELETE_TOPICS: 5,
}
NO_NODE = 77  # has no node of the cluster
SIZE_BYTES = 4
LOOPBACK = bytes((127, 0, 0, 1))
SETTINGS_OF = (ApiKey.DESCRIBE_CONFIGS, ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What requests name: a topic that exists is named by its id in the versions that have it."""

    name: str
    topic_id: bytes | None = None

    def put_into(self, part: object) -> None:
        """In place of the words of generated requests."""
        if isinstance(part, Struct):
            for field in part.FIELDS:
                setattr(part, field.name, self._replaced(getattr(part, field.name)))

    def _replaced(self, value: object) -> object:
        if isinstance(value, list):
            return [self._replaced(one) for one in value]
        self.put_into(value)
        if value == NAME:
            return self.name
        return self.topic_id if self.topic_id is not None and value == bytes(range(16)) else value


def requests_about(subject: Subject, api: AnyApi) -> Iterator[tuple[str, Message, int]]:
    """What an API is asked, under a name of its own, and in which version."""
    by_name = max(
        api.versions.min, min(api.versions.max, BY_NAME_UP_TO.get(api.key, api.versions.max))
    )
    for version in {by_name} if subject.topic_id is None else {by_name, api.versions.max}:
        for name, request, asked in _requests(api, version):
            subject.put_into(request)
            yield f"{name} {asked}", request, asked


def requests_by_id(subject: Subject, api: AnyApi) -> Iterator[tuple[str, Message, int]]:
    """The same in every version that names topics by ids, and there by the id alone; offsets are
    those of no member, which would be refused before anyone looks at the topics.
    """
    for version in versions_by_id(api):
        for name, request, asked in _requests(api, version):
            _name_by_id_alone(request, asked)
            CHANGES_BY_ID.get(api.key, _same)(request)
            subject.put_into(request)
            yield f"{name} {asked}", request, asked


def versions_by_id(api: AnyApi) -> list[int]:
    """Those that name topics by ids."""
    versions = range(api.versions.min, api.versions.max + 1)
    return [one for one in versions if is_served(api, one) and _has_topic_ids(api.request, one)]


def _has_topic_ids(struct: type[Struct], version: int) -> bool:
    """In itself, or in any of its parts."""
    return any(
        field.name == TOPIC_ID or (part is not None and _has_topic_ids(part, version))
        for field, part in _fields(struct, version)
    )


def _name_by_id_alone(part: Struct, version: int) -> None:
    """Takes away the names that stand beside ids, where a request can do without."""
    fields = [field for field, _ in _fields(type(part), version)]
    by_id = any(field.name == TOPIC_ID for field in fields)
    for field in fields:
        value = getattr(part, field.name)
        if by_id and value == NAME and field.nullable_in(version):
            setattr(part, field.name, None)
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, Struct):
                _name_by_id_alone(one, version)


def _fields(struct: type[Struct], version: int) -> Iterator[tuple[Field, type[Struct] | None]]:
    """Those of a version; with their structs, if they are made of any."""
    for field in struct.FIELDS:
        if version in field.versions:
            yield field, field.struct if field.element is None else field.element.struct


def _requests(api: AnyApi, version: int) -> Iterator[tuple[str, Message, int]]:
    name = api.key.name

    def filled() -> Message:
        request = full_request(api.request, version)
        return _with(request, timeout_ms=60_000) if hasattr(request, "timeout_ms") else request

    if api.key in SETTINGS_OF:
        for kind, of in ((ResourceKind.BROKER, "1"), *((one, NAME) for one in NAMED_KINDS)):
            yield f"{name} of {kind.name}", _settings(filled(), kind, of), version
        return
    if api.key == ApiKey.FIND_COORDINATOR:
        for key_type in (0, 1):
            yield f"{name} {key_type}", _with(filled(), key_type=key_type), version
        return
    if api.key == ApiKey.FETCH:
        for who, number in (("follower", 1), ("consumer", -1)):
            yield f"{name} of a {who}", _with(_fetcher(filled(), number), **NO_SESSION), version
        return
    if api.key == ApiKey.ADD_PARTITIONS_TO_TXN:
        yield f"{name} of a client", full_request(api.request, 3), 3
    if api.key == ApiKey.PRODUCE:
        yield f"{name} in a transaction", _batch(filled(), transactional=True), version
        plain = _with(_batch(filled(), transactional=False), transactional_id=None)
        yield name, plain, version
        return
    yield name, CHANGES.get(api.key, _same)(filled()), version


NAMED_KINDS = (ResourceKind.TOPIC, ResourceKind.GROUP)
NO_SESSION = {"session_id": 0, "session_epoch": -1, "forgotten_topics_data": []}


def _same(request: Message) -> Message:
    return request


def _with(request: Message, **values: object) -> Message:
    for name, value in values.items():
        setattr(request, name, value)
    return request


def _settings(request: Message, kind: ResourceKind, name: str) -> Message:
    [resource] = request.resources  # type: ignore[attr-defined]
    resource.resource_type, resource.resource_name = kind, name
    return request


def _fetcher(request: Message, number: int) -> Message:
    """Later versions have the follower in a part of its own."""
    state = request.replica_state  # type: ignore[attr-defined]
    if state is not None:
        state.replica_id = number
    return _with(request, replica_id=number)


def _named_by_id(request: Message) -> Message:
    for topic in request.topics:  # type: ignore[attr-defined]
        topic.name = None
    return request


def _batch(request: Message, *, transactional: bool) -> Message:
    [topic] = request.topic_data  # type: ignore[attr-defined]
    writer = {"producer_id": 1, "epoch": 0, "sequence": 0} if transactional else {}
    batch = produced(transactional=transactional, **writer)
    topic.partition_data[0].records = bytes(batch)
    request.acks = -1  # type: ignore[attr-defined]
    return request


def _commit_of_no_member(request: Message) -> Message:
    return _with(request, generation_id_or_member_epoch=-1, member_id="", group_instance_id=None)


def _fetch_of_no_member(request: Message) -> Message:
    for group in request.groups:  # type: ignore[attr-defined]
        group.member_id, group.member_epoch = None, -1
    return request


def _unacceptable_entry(request: Message) -> Message:
    """It would change what the next request may do."""
    request.creations[0].principal = NAME  # type: ignore[attr-defined]
    return request


def _entries_of_nobody(request: Message) -> Message:
    request.filters[0].principal_filter = "User:nobody"  # type: ignore[attr-defined]
    return request


def _new_transaction(request: Message) -> Message:
    return _with(request, producer_id=-1, producer_epoch=-1, keep_prepared_txn=False)


def _without_proposed_id(request: Message) -> Message:
    """Which is no field of Apache Kafka's: with the id of a topic, its creation is repeated."""
    for topic in request.topics:  # type: ignore[attr-defined]
        topic.proposed_id = NO_TOPIC_ID
    return request


def _another_node(request: Message) -> Message:
    """With the right to do so, the only node would be taken out of its own cluster."""
    return _with(request, broker_id=NO_NODE)


def _another_controller(request: Message) -> Message:
    return _with(request, controller_id=NO_NODE)


def _forwarded(_: Message) -> Message:
    """A request of alice, which another node forwards. Its reply is inside that of the envelope, so
    what she may do herself does not count here.
    """
    inner = full_request(CreateTopicsRequest, 7)
    parts = encode_request(inner, version=7, correlation_id=1, client_id="forwarded")
    principal = DefaultPrincipalData(type="User", name="alice")
    return EnvelopeRequest(
        request_data=b"".join(bytes(part) for part in parts)[SIZE_BYTES:],
        request_principal=write_embedded(principal, version=0),
        client_host_address=LOOPBACK,
    )


CHANGES: dict[ApiKey, Callable[[Message], Message]] = {
    ApiKey.INIT_PRODUCER_ID: _new_transaction,
    ApiKey.CREATE_TOPICS: _without_proposed_id,
    ApiKey.CREATE_ACLS: _unacceptable_entry,
    ApiKey.DELETE_ACLS: _entries_of_nobody,
    ApiKey.DELETE_TOPICS: _named_by_id,  # where they have ids
    ApiKey.UNREGISTER_BROKER: _another_node,
    ApiKey.CONTROLLER_REGISTRATION: _another_controller,
    ApiKey.ENVELOPE: _forwarded,
}

CHANGES_BY_ID: dict[ApiKey, Callable[[Message], Message]] = {
    ApiKey.OFFSET_COMMIT: _commit_of_no_member,
    ApiKey.OFFSET_FETCH: _fetch_of_no_member,
}


def codes_of(part: object) -> Iterator[int]:
    if isinstance(part, Struct):
        for field in part.FIELDS:
            value = getattr(part, field.name)
            if field.name.endswith("error_code"):
                yield value
            yield from codes_of(value)
    elif isinstance(part, list):
        for item in part:
            yield from codes_of(item)


class Guarded:
    """A broker with an authorizer, at a listener for PLAIN; admin may do everything. `controller`
    is where alice asks, if she is to ask another listener.
    """

    def __init__(self, bootstrap: str, *, controller: str | None = None) -> None:
        self.topic_ids: dict[str, bytes] = {}  # by name: of those that were made here
        self._asked_at = controller or bootstrap
        self._admin = self.dialogue("admin", at=bootstrap)
        self._alice = self.dialogue("alice")

    def dialogue(self, user: str, *, at: str | None = None) -> Dialogue:
        talk = Dialogue(at or self._asked_at, "rights")
        talk.exchange(SaslHandshakeRequest(mechanism="PLAIN"), version=1)
        token = f"\0{user}\0{user}-secret".encode()
        reply = talk.exchange(SaslAuthenticateRequest(auth_bytes=token), version=2)
        assert reply.error_code == ErrorCode.NONE, reply
        return talk

    def grant_only(self, acls: Iterable[Acl]) -> None:
        """These, in place of all before."""
        gone = DeleteAclsRequest(filters=[deletion_filter(AclFilter())])
        assert set(codes_of(self._admin.exchange(gone, version=3))) == {ErrorCode.NONE}
        if creations := [creation_of(acl) for acl in acls]:
            added = self._admin.exchange(CreateAclsRequest(creations=creations), version=3)
            assert set(codes_of(added)) == {ErrorCode.NONE}
        self._admin.settle()

    def create_topic(self, name: str) -> Subject:
        self._admin.topic = name
        self.topic_ids[name] = self._admin.create_topic(partitions=2)
        return Subject(name=name, topic_id=self.topic_ids[name])

    def ask(self, request: Message, version: int) -> list[str]:
        """What alice is answered, in each part of the reply. Other errors than those of rights are
        compared elsewhere, in conversations that make sense.
        """
        try:
            reply = self._alice.exchange(request, version=version)
        except ConnectionError:
            self._alice.close()
            self._alice = self.dialogue("alice")
            return [CLOSED]
        denied = [ErrorCode(code).name for code in codes_of(reply) if code in DENIALS]
        return sorted(denied) or [SERVED]

    def close(self) -> None:
        self._admin.close()
        self._alice.close()


def entries(rights: Iterable[Right], *, name: str = NAME) -> list[Acl]:
    return [
        allow("alice", operation, kind, CLUSTER_NAME if kind is ResourceType.CLUSTER else name)
        for operation, kind in rights
    ]
