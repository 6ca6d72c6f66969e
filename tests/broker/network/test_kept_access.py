"""A connection keeps what its client may do, and never uses it when it might be something else."""

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.broker.network.identity import ConnectionIdentity
from penstock.metadata.image.acls import changed_index
from penstock.model.limit import REMEMBERED_DECISIONS_MAX
from penstock.security.acl.authorizer import Authorizer
from penstock.security.acl.entry import Acl, ResourcePattern
from penstock.security.acl.rules import AclIndex
from penstock.security.acl.words import AclOperation as Op
from penstock.security.acl.words import PatternType, Permission
from penstock.security.acl.words import ResourceType as Type
from penstock.security.principal import Principal
from penstock.world.ports import Address
from rig.naive_authorizer import naive_may

WHO = tuple(Principal("User", name) for name in ("alice", "bob", "root"))
PEERS = tuple(Address(host=host, port=1) for host in ("10.0.0.1", "10.0.0.2"))
SUPER_USERS = ("root", "alice")  # of two authorizers

acls = st.builds(
    Acl,
    pattern=st.builds(
        ResourcePattern,
        st.just(Type.TOPIC),
        st.sampled_from(["orders", "ord", "*"]),
        st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
    ),
    principal=st.sampled_from(["User:alice", "User:bob", "User:*"]),
    host=st.sampled_from(["*", *(peer.host for peer in PEERS)]),
    operation=st.sampled_from([Op.READ, Op.WRITE]),
    permission=st.sampled_from([Permission.ALLOW, Permission.ALLOW, Permission.DENY]),
)
# What changes before the next request: entries, the client, the node, or nothing.
steps = st.one_of(
    acls,
    st.sampled_from(WHO),
    st.sampled_from(PEERS),
    st.sampled_from(SUPER_USERS),
    st.none(),
)


def authorizer_for(super_user: str) -> Authorizer:
    return Authorizer(
        super_users=frozenset({Principal("User", super_user)}),
        allow_everyone_if_no_acl_found=False,
    )


@settings(max_examples=300)
@given(history=st.lists(steps, min_size=1, max_size=12))
def test_rights_are_those_of_the_entries_and_the_client_as_they_are(
    history: list[Acl | Principal | Address | str | None],
) -> None:
    """An entry is added if it is not there, and removed if it is."""
    authorizers = {name: authorizer_for(name) for name in SUPER_USERS}
    identity, peer, super_user = ConnectionIdentity(principal=WHO[0]), PEERS[0], SUPER_USERS[0]
    index: AclIndex = changed_index({}, removed=[], added=[])
    entries: set[Acl] = set()
    for step in (None, *history):
        match step:
            case Acl():
                removed, added = ([step], []) if step in entries else ([], [step])
                index = changed_index(index, removed=removed, added=added)
                entries ^= {step}
            case Principal():
                identity.principal = step
            case Address():
                peer = step
            case str():
                super_user = step
        access = identity.access(authorizers[super_user], peer, index)
        for operation, answer in (
            (Op.READ, access.may_read("orders")),
            (Op.WRITE, access.may_write("orders")),
        ):
            assert answer == (
                identity.principal.name == super_user
                or naive_may(
                    entries,
                    principal=str(identity.principal),
                    host=peer.host,
                    operation=operation,
                    resource_type=Type.TOPIC,
                    name="orders",
                    everyone=False,
                )
            )


class CountedHost(str):
    """Whoever looks a client up by its host asks for the hash."""

    __slots__ = ("look_ups",)
    look_ups: int

    def __hash__(self) -> int:
        self.look_ups += 1
        return super().__hash__()


def test_the_requests_of_a_connection_look_their_client_up_once() -> None:
    host = CountedHost("10.0.0.1")
    host.look_ups = 0
    peer, index = Address(host=host, port=1), changed_index({}, removed=[], added=[])
    authorizer, identity = authorizer_for("root"), ConnectionIdentity(principal=WHO[0])
    first = identity.access(authorizer, peer, index)
    looked_up = host.look_ups
    assert looked_up > 0
    # Others have their requests in between.
    other = ConnectionIdentity(principal=WHO[1])
    for _ in range(3):
        other.access(authorizer, PEERS[1], index)
        assert identity.access(authorizer, peer, index) is first
    assert host.look_ups == looked_up


def test_an_idle_connection_keeps_no_decisions_that_were_forgotten() -> None:
    """Else each of many connections could hold as many as all of them may."""
    authorizer, index = authorizer_for("root"), changed_index({}, removed=[], added=[])
    idle, busy = ConnectionIdentity(principal=WHO[0]), ConnectionIdentity(principal=WHO[1])
    kept = idle.access(authorizer, PEERS[0], index)
    for number in range(REMEMBERED_DECISIONS_MAX // 2):
        assert not kept.may_read(f"{number}")
        assert not kept.may_write(f"{number}")
    busy.access(authorizer, PEERS[1], index)
    assert not kept._decided
    assert not kept._may_read
    assert not kept._may_write
    assert idle.access(authorizer, PEERS[0], index) is not kept


def test_a_busy_connection_forgets_decisions_that_are_too_many() -> None:
    authorizer, index = authorizer_for("root"), changed_index({}, removed=[], added=[])
    identity = ConnectionIdentity(principal=WHO[0])
    first = identity.access(authorizer, PEERS[0], index)
    assert identity.access(authorizer, PEERS[0], index) is first
    for number in range(REMEMBERED_DECISIONS_MAX):
        assert not first.may(Op.READ, Type.TOPIC, f"{number}")
    assert identity.access(authorizer, PEERS[0], index) is not first
