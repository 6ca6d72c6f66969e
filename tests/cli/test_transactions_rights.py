"""`penstock transactions hanging` and `abort` as a user to whom coordinators do not tell all."""

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from penstock.security.acl.entry import Acl
from penstock.security.acl.words import AclOperation, ResourceType
from rig.authorised_node import ADMIN, AuthorisedNode, allow, authorised_node
from rig.command import Outcome
from rig.dialogue import Dialogue
from rig.hanging import leave_hanging
from rig.transaction_dialogue import TransactionDialogue

Run = Callable[..., Outcome]

ANYBODY = "ANONYMOUS"  # whom commands run as
HANGING = "transactions hanging --topic unused"
ABORT = "transactions abort --topic unused:0 --start-offset"
RIGHTS = (
    allow(ANYBODY, AclOperation.READ, ResourceType.TOPIC, "*"),
    allow(ANYBODY, AclOperation.ALTER, ResourceType.CLUSTER, "kafka-cluster"),
)
OF_OTHER_IDS = allow(
    ANYBODY, AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, "billing", prefixed=True
)
OF_ALL_IDS = allow(ANYBODY, AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, "*")


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AuthorisedNode]:
    with authorised_node(tmp_path / "data") as node:
        monkeypatch.setenv("PENSTOCK_BOOTSTRAP", node.node.bootstrap)
        node.grant(*RIGHTS)
        yield node


@pytest.fixture
def dialogue(node: AuthorisedNode) -> Iterator[Dialogue]:
    with closing(node.dialogue(ADMIN)) as dialogue:
        yield dialogue


@pytest.mark.parametrize("more", [(), (OF_OTHER_IDS,)], ids=["none", "of other ids"])
def test_a_transaction_whose_coordinator_is_not_told_is_not_taken_for_hanging(
    run: Run, node: AuthorisedNode, dialogue: Dialogue, more: tuple[Acl, ...]
) -> None:
    node.grant(*more)
    talk = TransactionDialogue(dialogue)
    producer = talk.producer()
    talk.add(producer, 0, 1)
    talk.produce(producer, 0)
    talk.produce(producer, 1)
    for command in (f"{HANGING} --json", f"{ABORT} 0"):
        refused = run(command)
        assert (refused.status, refused.out) == (1, b"")
        assert refused.err == (
            "penstock: unused-0: the transaction that begins at 0 may have a coordinator that does"
            " not tell you: this needs DESCRIBE on all transactional ids\n"
        )
    assert talk.end(producer, commit=True).error_code == 0
    assert len(run("consume unused --committed").lines) == 2


@pytest.mark.parametrize("is_known", [True, False])
def test_a_user_who_is_told_of_all_ids_finds_and_aborts_what_hangs(
    run: Run, node: AuthorisedNode, dialogue: Dialogue, is_known: bool
) -> None:
    node.grant(OF_ALL_IDS)
    talk = TransactionDialogue(dialogue)
    leave_hanging(talk, is_known=is_known)
    [found] = run(f"{HANGING} --json").json()
    assert found["hangs"] and (found["transactional_id"] is not None) == is_known
    assert run(f"{ABORT} {found['start_offset']}").status == 0
    assert run(f"{HANGING} --json").json() == []
