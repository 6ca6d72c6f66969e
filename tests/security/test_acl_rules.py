"""What entries allow and deny, by the rules of Apache Kafka's StandardAuthorizer."""

from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.security.acl.authorizer import Access, Authorizer
from penstock.security.acl.entry import Acl, ResourcePattern
from penstock.security.acl.index import NO_ENTRIES, with_acl, without_acl
from penstock.security.acl.rules import AclIndex
from penstock.security.acl.words import AclOperation as Op
from penstock.security.acl.words import PatternType, Permission
from penstock.security.acl.words import ResourceType as Type
from penstock.security.principal import Principal
from rig.naive_authorizer import naive_may

ALICE = Principal("User", "alice")
HOST = "10.0.0.1"


def indexed(acls: Iterable[Acl]) -> AclIndex:
    index: dict[ResourcePattern, dict[str, tuple[Acl, ...]]] = {}
    for acl in acls:
        index[acl.pattern] = with_acl(index.get(acl.pattern, NO_ENTRIES), acl)
    return index


def topic(
    name: str,
    operation: Op,
    *,
    who: str = "User:alice",
    host: str = "*",
    prefixed: bool = False,
    deny: bool = False,
) -> Acl:
    pattern_type = PatternType.PREFIXED if prefixed else PatternType.LITERAL
    return Acl(
        pattern=ResourcePattern(Type.TOPIC, name, pattern_type),
        principal=who,
        host=host,
        operation=operation,
        permission=Permission.DENY if deny else Permission.ALLOW,
    )


def authorizer(super_users: Iterable[str] = (), everyone: bool = False) -> Authorizer:
    return Authorizer(
        super_users=frozenset(map(Principal.parse, super_users)),
        allow_everyone_if_no_acl_found=everyone,
    )


def access(
    *acls: Acl,
    who: Principal = ALICE,
    host: str = HOST,
    super_users: Iterable[str] = (),
    everyone: bool = False,
) -> Access:
    return authorizer(super_users, everyone).access(who, host, indexed(acls))


def test_nothing_is_allowed_without_an_entry() -> None:
    assert not access().may(Op.READ, Type.TOPIC, "orders")


def test_an_entry_allows_its_operation_on_its_resource_alone() -> None:
    alice = access(topic("orders", Op.READ))
    assert alice.may(Op.READ, Type.TOPIC, "orders")
    assert not alice.may(Op.WRITE, Type.TOPIC, "orders")
    assert not alice.may(Op.READ, Type.TOPIC, "payments")
    assert not alice.may(Op.READ, Type.GROUP, "orders")


def test_an_entry_is_for_its_principal_alone() -> None:
    bob = access(topic("orders", Op.READ), who=Principal("User", "bob"))
    assert not bob.may(Op.READ, Type.TOPIC, "orders")


def test_an_entry_for_everybody_is_for_each() -> None:
    assert access(topic("orders", Op.READ, who="User:*")).may(Op.READ, Type.TOPIC, "orders")


def test_a_prefix_covers_names_that_begin_with_it() -> None:
    alice = access(topic("orders-", Op.READ, prefixed=True))
    assert alice.may(Op.READ, Type.TOPIC, "orders-eu")
    assert alice.may(Op.READ, Type.TOPIC, "orders-")
    assert not alice.may(Op.READ, Type.TOPIC, "orders")


def test_a_star_is_every_name_as_a_literal_and_a_character_as_a_prefix() -> None:
    assert access(topic("*", Op.READ)).may(Op.READ, Type.TOPIC, "orders")
    assert not access(topic("*", Op.READ, prefixed=True)).may(Op.READ, Type.TOPIC, "orders")


def test_denial_beats_every_allowance() -> None:
    alice = access(topic("*", Op.ALL), topic("orders-", Op.READ, prefixed=True, deny=True))
    assert not alice.may(Op.READ, Type.TOPIC, "orders-eu")
    assert alice.may(Op.READ, Type.TOPIC, "payments")


def test_an_entry_may_be_for_one_host() -> None:
    assert access(topic("orders", Op.READ, host=HOST)).may(Op.READ, Type.TOPIC, "orders")
    assert not access(topic("orders", Op.READ, host="10.0.0.2")).may(Op.READ, Type.TOPIC, "orders")


@pytest.mark.parametrize(
    ("written", "host"),
    [
        ("2001:db8:0:0:0:0:0:1", "2001:db8::1"),  # as Java writes it
        ("2001:DB8::0:1", "2001:db8::1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("::ffff:a00:1", "10.0.0.1"),
        ("fe80:0:0:0:0:0:0:1%eth0", "fe80::1"),
    ],
)
def test_an_address_may_be_written_in_any_form(written: str, host: str) -> None:
    denying = topic("orders", Op.READ, host=written, deny=True)
    by_entries = access(denying, topic("orders", Op.READ), host=host)
    assert not by_entries.may(Op.READ, Type.TOPIC, "orders")
    assert access(denying, topic("orders", Op.READ)).may(Op.READ, Type.TOPIC, "orders") == (
        host != HOST
    )


def test_two_forms_of_one_address_are_two_entries() -> None:
    long, short = (topic("orders", Op.READ, host=host) for host in ("0:0:0:0:0:0:0:1", "::1"))
    entries = without_acl(with_acl(with_acl(NO_ENTRIES, long), short), short)
    allowed = Authorizer(super_users=frozenset(), allow_everyone_if_no_acl_found=False).access(
        ALICE, "::1", {long.pattern: entries}
    )
    assert allowed.may(Op.READ, Type.TOPIC, "orders")
    assert without_acl(entries, long) == NO_ENTRIES


@pytest.mark.parametrize("operation", [Op.READ, Op.WRITE, Op.DELETE, Op.ALTER])
def test_describe_is_implied_by_what_needs_it(operation: Op) -> None:
    assert access(topic("orders", operation)).may(Op.DESCRIBE, Type.TOPIC, "orders")


def test_describing_settings_is_implied_by_altering_them() -> None:
    alice = access(topic("orders", Op.ALTER_CONFIGS))
    assert alice.may(Op.DESCRIBE_CONFIGS, Type.TOPIC, "orders")
    assert not alice.may(Op.DESCRIBE, Type.TOPIC, "orders")


def test_a_denial_implies_nothing() -> None:
    alice = access(topic("orders", Op.DESCRIBE), topic("orders", Op.READ, deny=True))
    assert alice.may(Op.DESCRIBE, Type.TOPIC, "orders")


def test_a_super_user_may_do_what_is_denied() -> None:
    alice = access(topic("orders", Op.ALL, deny=True), super_users=["User:alice"])
    assert alice.may(Op.DELETE, Type.TOPIC, "orders")
    assert alice.may_cluster(Op.CLUSTER_ACTION)


def test_everyone_is_allowed_where_no_entry_has_a_pattern_if_the_setting_says_so() -> None:
    alice = access(topic("orders", Op.READ, who="User:bob"), everyone=True)
    assert alice.may(Op.READ, Type.TOPIC, "payments")
    assert not alice.may(Op.READ, Type.TOPIC, "orders")


def test_the_operations_on_a_resource_are_told_as_bits() -> None:
    alice = access(topic("orders", Op.READ))
    assert alice.operations(Type.TOPIC, "orders") == 1 << Op.READ | 1 << Op.DESCRIBE


def test_writing_somewhere_needs_an_allowance_that_no_denial_covers() -> None:
    assert not access().may_somewhere(Op.WRITE, Type.TOPIC)
    assert access(topic("a", Op.WRITE)).may_somewhere(Op.WRITE, Type.TOPIC)
    covered = access(topic("ab", Op.WRITE), topic("a", Op.WRITE, prefixed=True, deny=True))
    assert not covered.may_somewhere(Op.WRITE, Type.TOPIC)
    wider = access(
        topic("a", Op.WRITE, prefixed=True), topic("ab", Op.WRITE, prefixed=True, deny=True)
    )
    assert wider.may_somewhere(Op.WRITE, Type.TOPIC)
    assert not access(topic("a", Op.WRITE), topic("*", Op.WRITE, deny=True)).may_somewhere(
        Op.WRITE, Type.TOPIC
    )


def test_a_change_of_the_entries_takes_effect_at_once() -> None:
    authorizer = Authorizer(super_users=frozenset(), allow_everyone_if_no_acl_found=False)
    before, after = indexed([]), indexed([topic("orders", Op.READ)])
    assert not authorizer.access(ALICE, HOST, before).may(Op.READ, Type.TOPIC, "orders")
    assert authorizer.access(ALICE, HOST, after).may(Op.READ, Type.TOPIC, "orders")
    assert not authorizer.access(ALICE, HOST, before).may(Op.READ, Type.TOPIC, "orders")


names = st.sampled_from(["a", "ab", "abc", "b", "*"])
types = st.sampled_from([Type.TOPIC, Type.GROUP])
operations = st.sampled_from(
    [Op.READ, Op.WRITE, Op.DESCRIBE, Op.ALTER_CONFIGS, Op.DESCRIBE_CONFIGS, Op.DELETE]
)
acls = st.builds(
    Acl,
    pattern=st.builds(
        ResourcePattern,
        types,
        names,
        st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
    ),
    principal=st.sampled_from(["User:alice", "User:bob", "User:*"]),
    host=st.sampled_from(["*", HOST, "10.0.0.2"]),
    operation=st.one_of(operations, st.just(Op.ALL)),
    permission=st.sampled_from([Permission.ALLOW, Permission.ALLOW, Permission.DENY]),
)


@settings(max_examples=500)
@given(
    entries=st.lists(acls, max_size=12, unique=True),
    questions=st.lists(st.tuples(operations, types, st.sampled_from(["a", "ab", "abcd", "c"]))),
    everyone=st.booleans(),
)
def test_the_index_answers_as_a_walk_over_all_entries(
    entries: list[Acl], questions: list[tuple[Op, Type, str]], everyone: bool
) -> None:
    alice = access(*entries, everyone=everyone)
    for operation, resource_type, name in questions * 2:  # the second time from memory
        assert alice.may(operation, resource_type, name) == naive_may(
            entries,
            principal="User:alice",
            host=HOST,
            operation=operation,
            resource_type=resource_type,
            name=name,
            everyone=everyone,
        )


@given(entries=st.lists(acls, min_size=1, max_size=8, unique=True), data=st.data())
def test_an_entry_that_is_removed_leaves_no_trace(entries: list[Acl], data: st.DataObject) -> None:
    gone = data.draw(st.sampled_from(entries))
    left = [acl for acl in entries if acl != gone]
    before = dict(indexed(entries))
    changed = without_acl(before[gone.pattern], gone)
    assert changed == dict(indexed(left)).get(gone.pattern, {})


class Counted(dict[ResourcePattern, Mapping[str, tuple[Acl, ...]]]):
    """An index that counts what is looked up in it."""

    lookups = 0

    def get(self, key: ResourcePattern, default: Any = None) -> Any:
        self.lookups += 1
        return super().get(key, default)


def test_prefixes_of_a_long_name_are_looked_up_only_where_entries_are_as_long() -> None:
    entries = [topic(name, Op.READ, prefixed=True) for name in ("a", "ab", "b", "a" * 100)]
    index = Counted(indexed([*entries, topic("z", Op.READ)]))
    by_index = authorizer().access(ALICE, HOST, index)
    assert by_index.may(Op.READ, Type.TOPIC, "a" * 32_767)
    assert index.lookups == 2 + 3
    index.lookups = 0
    assert not by_index.may(Op.READ, Type.GROUP, "a" * 32_767)
    assert index.lookups == 2


def test_decisions_about_long_names_are_not_remembered() -> None:
    allowed = access(topic("a", Op.ALL, prefixed=True))
    count = allowed.memory.count
    for number in range(10):
        name = "a" * 300 + str(number)
        assert allowed.may(Op.ALTER, Type.TOPIC, name)
        assert allowed.may_read(name)
        assert allowed.may_write(name)
    assert allowed.memory.count == count
