"""`penstock acls`: entries are listed, added, removed and granted for common work."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rig.authorised_node import AuthorisedNode, authorised_node
from rig.command import Outcome

Run = Callable[..., Outcome]
Acls = Callable[[str], Outcome]


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[AuthorisedNode]:
    # Who runs the command is not authenticated here.
    with authorised_node(tmp_path / "data", super_users="User:admin;User:ANONYMOUS") as node:
        yield node


@pytest.fixture
def acls(run: Run, guarded: AuthorisedNode) -> Acls:
    return lambda text: run(f"acls {text}", bootstrap=guarded.node.bootstrap)


def rights(outcome: Outcome) -> set[tuple[str, str, str, str]]:
    return {
        (acl["operation"], acl["resource"], acl["name"], acl["pattern"]) for acl in outcome.json()
    }


def test_an_added_entry_is_listed_and_can_be_removed(acls: Acls) -> None:
    assert acls("add alice read --topic 'orders-*' --deny").status == 0
    [found] = acls("list --json").json()
    assert found == {
        "principal": "User:alice",
        "host": "*",
        "permission": "deny",
        "operation": "read",
        "resource": "topic",
        "name": "orders-",
        "pattern": "prefixed",
    }
    assert "1 entry removed" in acls("remove --principal alice").text
    assert acls("list --json").json() == []


def test_entries_of_one_resource_are_those_that_apply_to_it(acls: Acls) -> None:
    acls("add alice read --topic 'ord*'")
    acls("add alice read --topic payments")
    assert rights(acls("list --topic orders --json")) == {("read", "topic", "ord", "prefixed")}


def test_rights_on_tokens_are_about_whole_principals_and_ids(acls: Acls) -> None:
    for named, name, pattern in (
        ("bob", "User:bob", "literal"),
        ("User:carol", "User:carol", "literal"),
        ("'job-*'", "User:job-", "prefixed"),
        ("'*'", "*", "literal"),
    ):
        added = acls(f"add alice create-tokens --user {named} --json")
        assert rights(added) == {("create_tokens", "user", name, pattern)}
    added = acls("add alice describe --delegation-token some-id --json")
    assert rights(added) == {("describe", "delegation_token", "some-id", "literal")}


def test_removing_everything_has_to_be_said(acls: Acls) -> None:
    acls("add alice read --topic orders")
    assert acls("remove").status == 2
    assert len(acls("list --json").json()) == 1
    assert len(acls("remove --all --json").json()) == 1


@pytest.mark.parametrize(
    "resource", ["topic", "group", "transactional-id", "user", "delegation-token"]
)
def test_an_empty_name_is_not_taken_for_every_resource(acls: Acls, resource: str) -> None:
    acls("add bob read --topic orders")
    for command in ("remove --principal User:bob", "list", "add bob read", "remove --all"):
        refused = acls(f"{command} --{resource} ''")
        assert refused.status == 2
        assert refused.err == f"penstock: Invalid value for '--{resource}': it is empty\n"
    assert len(acls("list --json").json()) == 1


def test_an_empty_principal_is_not_taken_for_everybody(acls: Acls) -> None:
    acls("add bob read --topic orders")
    assert acls("remove --topic orders --principal ''").status == 2
    assert len(acls("list --json").json()) == 1


def test_a_producer_may_write_and_no_more(acls: Acls) -> None:
    assert rights(acls("grant producer alice --topic orders --transactional-id 'o-*' --json")) == {
        ("write", "topic", "orders", "literal"),
        ("write", "transactional_id", "o-", "prefixed"),
    }


def test_a_consumer_may_read_as_a_member_of_its_group(acls: Acls) -> None:
    assert rights(acls("grant consumer alice --topic orders --group shop --json")) == {
        ("read", "topic", "orders", "literal"),
        ("read", "group", "shop", "literal"),
    }


def test_a_query_of_spark_may_prepare_its_transactions(acls: Acls) -> None:
    granted = rights(acls("grant spark etl --read in --write out --sink totals --json"))
    assert ("two_phase_commit", "transactional_id", "totals", "prefixed") in granted
    assert ("read", "topic", "in", "literal") in granted
    assert ("write", "topic", "out", "literal") in granted


def test_an_administrator_may_alter_the_cluster_and_not_read_records(acls: Acls) -> None:
    granted = rights(acls("grant admin ops --json"))
    assert ("alter", "cluster", "kafka-cluster", "literal") in granted
    assert not any(operation in ("read", "all") for operation, *_ in granted)


def test_a_node_without_an_authorizer_says_so(run: Run, penstock: object) -> None:
    outcome = run("acls list", bootstrap=penstock.bootstrap)  # type: ignore[attr-defined]
    assert outcome.status == 1
    assert "No Authorizer is configured" in outcome.err
