"""What an authorizer remembers is what it would decide anew, whatever changes in between."""

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.metadata.image.acls import changed_index
from penstock.model.limit import REMEMBERED_DECISIONS_MAX
from penstock.security.acl.authorizer import Access, Authorizer
from penstock.security.acl.entry import Acl, ResourcePattern
from penstock.security.acl.rules import AclIndex
from penstock.security.acl.words import AclOperation as Op
from penstock.security.acl.words import PatternType, Permission
from penstock.security.acl.words import ResourceType as Type
from penstock.security.principal import Principal
from rig.naive_authorizer import naive_may

WHO = ("alice", "bob", "root")
HOSTS = ("10.0.0.1", "10.0.0.2")
NAMES = ("a", "ab", "abc", "b")
ALICE = Principal("User", "alice")

acls = st.builds(
    Acl,
    pattern=st.builds(
        ResourcePattern,
        st.sampled_from([Type.TOPIC, Type.GROUP]),
        st.sampled_from([*NAMES, "*"]),
        st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
    ),
    principal=st.sampled_from(["User:alice", "User:bob", "User:*"]),
    host=st.sampled_from(["*", *HOSTS]),
    operation=st.sampled_from([Op.READ, Op.WRITE, Op.DESCRIBE, Op.ALL]),
    permission=st.sampled_from([Permission.ALLOW, Permission.ALLOW, Permission.DENY]),
)
histories = st.lists(st.lists(acls, min_size=1, max_size=4, unique=True), min_size=1, max_size=8)


@settings(max_examples=200)
@given(history=histories, everyone=st.booleans())
def test_a_remembered_answer_is_that_of_the_entries_as_they_are(
    history: list[list[Acl]], everyone: bool
) -> None:
    """Each change adds the entries that are not there, and removes those that are."""
    authorizer = authorizer_for("root", everyone=everyone)
    index: AclIndex = {}
    entries: set[Acl] = set()
    same, host_of_same = Principal("User", WHO[0]), HOSTS[0]  # as one connection has it
    for changed in history:
        removed = [acl for acl in changed if acl in entries]
        added = [acl for acl in changed if acl not in entries]
        index = changed_index(index, removed=removed, added=added)
        entries = entries.difference(removed).union(added)
        # The last client of the entries before, and the first of those that are now.
        first = authorizer.access(same, host_of_same, index)
        for operation in (Op.READ, Op.WRITE):
            expected = WHO[0] == "root" or naive_may(
                entries,
                principal=str(same),
                host=host_of_same,
                operation=operation,
                resource_type=Type.TOPIC,
                name=NAMES[0],
                everyone=everyone,
            )
            assert answers(first, operation, NAMES[0]) == {expected}
        for who in (*WHO, *WHO):  # the second time from memory
            for host in HOSTS:
                # As each connection has it: one that is equal, and not the same.
                access = authorizer.access(Principal("User", who), host, index)
                for name in NAMES:
                    for operation in (Op.READ, Op.WRITE, Op.DESCRIBE):
                        expected = who == "root" or naive_may(
                            entries,
                            principal=f"User:{who}",
                            host=host,
                            operation=operation,
                            resource_type=Type.TOPIC,
                            name=name,
                            everyone=everyone,
                        )
                        assert answers(access, operation, name) == {expected}
        authorizer.access(same, host_of_same, index)


def test_those_of_one_name_and_another_kind_are_not_taken_for_each_other() -> None:
    authorizer = authorizer_for("alice")
    index = changed_index({}, removed=[], added=[])
    assert authorizer.access(ALICE, HOSTS[0], index).may_write("orders")
    robot = Principal("Robot", "alice")
    assert not authorizer.access(robot, HOSTS[0], index).may_write("orders")


def test_decisions_are_forgotten_when_they_are_too_many() -> None:
    """A client may ask for any name: what is remembered of it has a bound."""
    authorizer = authorizer_for("root")
    index: AclIndex = {}
    first = authorizer.access(ALICE, HOSTS[0], index)
    assert authorizer.access(ALICE, HOSTS[0], index) is first
    for number in range(REMEMBERED_DECISIONS_MAX // 2):
        assert not first.may_read(f"{number}")
    assert authorizer.access(ALICE, HOSTS[0], index) is not first
    assert not authorizer.access(ALICE, HOSTS[0], index).may_read("1")


def authorizer_for(super_user: str, *, everyone: bool = False) -> Authorizer:
    return Authorizer(
        super_users=frozenset({Principal("User", super_user)}),
        allow_everyone_if_no_acl_found=everyone,
    )


def answers(access: Access, operation: Op, name: str) -> set[bool]:
    """All that are given to one question: one, if they agree."""
    found = {access.may(operation, Type.TOPIC, name)}
    if operation is Op.READ:
        found.add(access.may_read(name))
    if operation is Op.WRITE:
        found.add(access.may_write(name))
    return found
