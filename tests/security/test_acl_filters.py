"""Which entries a filter of DescribeAcls or DeleteAcls means, and which entries are refused."""

from dataclasses import replace

import pytest

from penstock.security.acl.entry import Acl, InvalidAcl, ResourcePattern, check_acl
from penstock.security.acl.filter import AclFilter, check_filter
from penstock.security.acl.words import AclOperation, PatternType, Permission, ResourceType

TOPIC = ResourceType.TOPIC
ACL = Acl(
    pattern=ResourcePattern(TOPIC, "orders"), principal="User:alice", operation=AclOperation.READ
)


def of(name: str, pattern_type: PatternType) -> Acl:
    return replace(ACL, pattern=ResourcePattern(TOPIC, name, pattern_type))


def test_a_filter_that_names_nothing_matches_everything() -> None:
    assert AclFilter().matches(ACL)


@pytest.mark.parametrize(
    "wanted",
    [
        AclFilter(resource_type=ResourceType.GROUP),
        AclFilter(name="payments"),
        AclFilter(pattern_type=PatternType.PREFIXED),
        AclFilter(principal="User:bob"),
        AclFilter(host="10.0.0.1"),
        AclFilter(operation=AclOperation.WRITE),
        AclFilter(permission=Permission.DENY),
    ],
)
def test_an_entry_that_differs_in_one_word_does_not_match(wanted: AclFilter) -> None:
    assert not wanted.matches(ACL)


def test_match_finds_every_pattern_that_applies_to_a_name() -> None:
    wanted = AclFilter(resource_type=TOPIC, name="orders", pattern_type=PatternType.MATCH)
    assert wanted.matches(of("orders", PatternType.LITERAL))
    assert wanted.matches(of("*", PatternType.LITERAL))
    assert wanted.matches(of("ord", PatternType.PREFIXED))
    assert not wanted.matches(of("payments", PatternType.LITERAL))
    assert not wanted.matches(of("orders-eu", PatternType.PREFIXED))


def test_any_finds_patterns_of_exactly_the_name() -> None:
    wanted = AclFilter(resource_type=TOPIC, name="orders", pattern_type=PatternType.ANY)
    assert wanted.matches(of("orders", PatternType.LITERAL))
    assert wanted.matches(of("orders", PatternType.PREFIXED))
    assert not wanted.matches(of("*", PatternType.LITERAL))


def test_a_whole_entry_is_accepted() -> None:
    check_acl(ACL)


@pytest.mark.parametrize(
    "acl",
    [
        replace(ACL, pattern=ResourcePattern(ResourceType.ANY, "orders")),
        replace(ACL, pattern=ResourcePattern(TOPIC, "")),
        replace(ACL, pattern=ResourcePattern(TOPIC, "orders", PatternType.MATCH)),
        replace(ACL, pattern=ResourcePattern(ResourceType.CLUSTER, "mine")),
        replace(ACL, principal="alice"),
        replace(ACL, host=""),
        replace(ACL, operation=AclOperation.ANY),
        replace(ACL, permission=Permission.ANY),
    ],
)
def test_an_entry_that_says_nothing_certain_is_refused(acl: Acl) -> None:
    with pytest.raises(InvalidAcl):
        check_acl(acl)


def test_a_filter_with_an_unknown_word_is_refused() -> None:
    with pytest.raises(InvalidAcl):
        check_filter(AclFilter(operation=AclOperation.UNKNOWN))
