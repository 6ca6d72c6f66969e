"""A user with the rights that `acls grant` gives for a role does all its work, and no other."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock.model.settings.authorization import STANDARD_AUTHORIZER
from rig.command import Outcome
from rig.running_node import RunningNode
from rig.sasl import PLAIN_MODULE, plain_users, sasl_listener

Run = Callable[..., Outcome]
As = Callable[..., Outcome]
USERS = {"root": "root-secret", "alice": "alice-secret"}


@pytest.fixture
def as_user(run: Run, tmp_path: Path) -> Iterator[As]:
    """Runs a command as a user; `root` is a super user."""
    settings = {
        **sasl_listener("PLAIN"),
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": plain_users(USERS),
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:root",
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.num.partitions": "1",
        "group.initial.rebalance.delay.ms": "0",
    }
    node = RunningNode(tmp_path / "data", settings)
    node.start()
    bootstrap = str(node.node.addresses_by_listener["SASL_PLAINTEXT"])
    for name, password in USERS.items():
        (tmp_path / name).write_text(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config="
            f'{PLAIN_MODULE} required username="{name}" password="{password}";\n'
        )

    (tmp_path / "lines").write_text("one\n")

    def typed(user: str, command: str) -> Outcome:
        return run(f"{command} --command-config {tmp_path / user}", bootstrap=bootstrap)

    yield typed
    node.stop()


def well(outcome: Outcome) -> Outcome:
    assert outcome.status == 0, outcome.err
    return outcome


def refused(outcome: Outcome) -> None:
    assert outcome.status != 0
    assert re.search("authorization.failed", outcome.err, re.IGNORECASE), outcome.err


# What an operator does, in an order that leaves something to do for each.
OPERATING = (
    "cluster describe",
    "cluster features",
    "cluster log-dirs",
    "cluster quorum",
    "topics create made --partitions 2",
    "topics list",
    "topics describe made",
    "topics offsets made",
    "topics alter made --partitions 3",
    "configs alter --topic made --set retention.ms=1000000",
    "configs describe --topic made --all",
    "configs describe --broker 1 --all",
    "configs alter --group shop --set consumer.session.timeout.ms=50000",
    "configs describe --group shop",
    "partitions elect-leaders --all",
    "partitions reassign --verify",
    "groups list",
    "groups describe shop",
    "groups delete shop",
    "transactions list",
    "users add bob",
    "users list",
    "users remove bob",
    "acls add bob read --topic made",
    "acls list",
    "acls remove --principal bob",
    "topics delete made",
)


def test_an_admin_operates_the_cluster_and_reads_and_writes_no_records(
    as_user: As, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_USER_PASSWORD", "bob-secret")
    well(as_user("root", "topics create orders"))
    well(as_user("root", "produce orders lines"))
    well(as_user("root", "consume orders --group shop --commit --max 1"))
    refused(as_user("alice", "topics create made"))
    well(as_user("root", "acls grant admin alice"))
    failed = {}
    for command in OPERATING:
        outcome = as_user("alice", command)
        if outcome.status != 0:
            failed[command] = outcome.err
    assert failed == {}
    refused(as_user("alice", "produce orders lines"))
    refused(as_user("alice", "consume orders --max 1"))


def test_a_producer_writes_and_does_not_read(as_user: As) -> None:
    well(as_user("root", "topics create orders"))
    refused(as_user("alice", "produce orders lines"))
    well(as_user("root", "acls grant producer alice --topic orders --transactional-id 'o-*'"))
    well(as_user("alice", "produce orders lines"))
    well(as_user("alice", "produce orders --transactional-id o-1 lines"))
    refused(as_user("alice", "produce orders --transactional-id p-1 lines"))
    refused(as_user("alice", "consume orders --max 1"))


def test_a_consumer_reads_as_a_member_of_its_group_and_does_not_write(as_user: As) -> None:
    well(as_user("root", "topics create orders"))
    well(as_user("root", "produce orders lines"))
    refused(as_user("alice", "consume orders --group shop --commit --max 1"))
    well(as_user("root", "acls grant consumer alice --topic orders --group shop"))
    read = well(as_user("alice", "consume orders --group shop --commit --max 1"))
    assert read.lines == ["one"]
    refused(as_user("alice", "consume orders --group other --commit --max 1"))
    refused(as_user("alice", "produce orders lines"))
