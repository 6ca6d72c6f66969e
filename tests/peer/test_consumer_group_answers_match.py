"""Heartbeats of consumer groups (KIP-848) are answered as by Apache Kafka, right ones and wrong.

Each conversation has a group of its own, named after its topic. Where the answers differ on purpose
is told in ADR 27; these cases are not in the conversations.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from penstock.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from penstock.wire.messages.find_coordinator import FindCoordinatorRequest
from penstock.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from rig.dialogue import Dialogue

NOT_YET = (14, 15, 16)  # loading, not available, not here
NEWS_NONE = {"rebalance_timeout_ms": -1, "subscribed_topic_names": None}


@dataclass
class Talk:
    """A conversation about one group on one topic of four partitions."""

    dialogue: Dialogue
    topic_id: bytes

    def join(self, member: str = "a", **told: Any) -> Any:
        fields: dict[str, Any] = {
            "group_id": self.group,
            "member_id": member,
            "topic_partitions": [],
            **self.everything,
            **told,
        }
        request = ConsumerGroupHeartbeatRequest(**fields)
        return self.dialogue.ask(request, version=1)

    def stay(self, member: str, epoch: int, *owned: int, reports: bool = True, **told: Any) -> Any:
        parts = [TopicPartitions(topic_id=self.topic_id, partitions=list(owned))] if owned else []
        reported = parts if reports else None
        fields = {**NEWS_NONE, "member_epoch": epoch, "topic_partitions": reported, **told}
        return self.join(member, **fields)

    def leave(self, member: str, **told: Any) -> Any:
        return self.stay(member, -1, reports=False, **told)

    def remove(self, *members: tuple[str, str | None], version: int = 5) -> Any:
        """LeaveGroup, as an administrator sends it: of each member its id and its instance."""
        identities = [
            MemberIdentity(member_id=member_id, group_instance_id=instance_id)
            for member_id, instance_id in members
        ]
        request = LeaveGroupRequest(
            group_id=self.group, member_id=members[0][0], members=identities
        )
        return self.dialogue.ask(request, version=version)

    def describe(self) -> Any:
        request = ConsumerGroupDescribeRequest(group_ids=[self.group])
        return self.dialogue.ask(request, version=1)

    @property
    def everything(self) -> dict[str, Any]:
        """What members send when they join, and after a request without a reply."""
        return {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": [self.dialogue.topic]}

    @property
    def group(self) -> str:
        return f"group-of-{self.dialogue.topic}"


def start(dialogue: Dialogue) -> Talk:
    talk = Talk(dialogue, dialogue.create_topic(partitions=4))
    find = FindCoordinatorRequest(coordinator_keys=[talk.group])
    while dialogue.exchange(find, version=4).coordinators[0].error_code in NOT_YET:
        pass
    describe = ConsumerGroupDescribeRequest(group_ids=[talk.group])
    while dialogue.exchange(describe, version=1).groups[0].error_code in NOT_YET:
        pass
    # A coordinator hears of a new topic a little after the broker that answers for it.
    probe: dict[str, Any] = {"group_id": f"probe-of-{dialogue.topic}", "member_id": "probe"}
    subscribe = ConsumerGroupHeartbeatRequest(
        **probe,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=[dialogue.topic],
        topic_partitions=[],
    )
    assignment = None
    while assignment is None or not assignment.topic_partitions:
        assignment = dialogue.exchange(subscribe, version=1).assignment
    leave = ConsumerGroupHeartbeatRequest(**probe, member_epoch=-1)
    dialogue.exchange(leave, version=1)
    return talk


def test_wrong_requests_get_the_same_errors(
    assert_same_answers: Callable[[Callable[[Dialogue], None]], None],
) -> None:
    def converse(dialogue: Dialogue) -> None:
        talk = start(dialogue)
        wrong: list[dict[str, Any]] = [
            {"group_id": ""},
            {"member": ""},
            {"instance_id": ""},
            {"rack_id": ""},
            {"rebalance_timeout_ms": -1},
            {"topic_partitions": None},
            {"subscribed_topic_names": None},
            {"subscribed_topic_names": None, "subscribed_topic_regex": "("},
            {"server_assignor": "none such"},
            {"member_epoch": 5},
            {"member_epoch": -1},
            {"member_epoch": -2},
            {"member_epoch": -2, "instance_id": "i"},
            {"member_epoch": -3},
        ]
        for fields in wrong:
            talk.join(**fields)
        talk.describe()

    assert_same_answers(converse)


def test_partitions_change_hands_in_the_same_steps(
    assert_same_answers: Callable[[Callable[[Dialogue], None]], None],
) -> None:
    def converse(dialogue: Dialogue) -> None:
        talk = start(dialogue)
        talk.join("a")
        talk.describe()
        talk.stay("a", 2, 0, 1, 2, 3)
        talk.join("b")
        talk.stay("b", 3)
        talk.stay("a", 2, 0, 1, 2, 3)
        talk.stay("a", 2, reports=False)
        talk.stay("a", 2, 0, 1)
        talk.stay("b", 3)
        talk.stay("a", 2, 0, 1, **talk.everything)  # as if the reply had been lost
        talk.stay("a", 2, 0, 1, 2)
        talk.stay("a", 2, reports=False)
        talk.stay("a", 4, 0, 1)
        talk.stay("nobody", 3)
        talk.join("a")
        talk.leave("nobody")
        talk.leave("b")
        talk.stay("a", 3, 0, 1)
        talk.describe()
        talk.leave("a")
        talk.describe()
        talk.join("c", subscribed_topic_names=[])
        talk.describe()

    assert_same_answers(converse)


def test_static_members_are_fenced_and_replaced_alike(
    assert_same_answers: Callable[[Callable[[Dialogue], None]], None],
) -> None:
    def converse(dialogue: Dialogue) -> None:
        talk = start(dialogue)
        talk.join("a", instance_id="i")
        talk.join("b", instance_id="i")
        talk.stay("a", 2, 0, 1, 2, 3, instance_id="i")
        talk.stay("a", -2, reports=False, instance_id="i")
        talk.describe()
        talk.stay("a", 2, 0, 1, 2, 3, instance_id="i")
        talk.join("b", instance_id="i")
        talk.stay("a", 2, 0, 1, 2, 3, instance_id="i")
        talk.leave("a", instance_id="i")
        talk.stay("b", 2, 0, 1, 2, 3, instance_id="other")
        talk.stay("b", 2, 0, 1, 2, 3)
        talk.describe()
        talk.leave("b", instance_id="i")
        talk.describe()

    assert_same_answers(converse)


def test_members_are_removed_by_leave_group_alike(
    assert_same_answers: Callable[[Callable[[Dialogue], None]], None],
) -> None:
    def converse(dialogue: Dialogue) -> None:
        talk = start(dialogue)
        talk.join("a", instance_id="ia")
        talk.remove(("", "no such instance"))
        talk.remove(("nobody", "no such instance"))
        talk.remove(("nobody", "ia"))
        talk.remove(("nobody", None))
        talk.remove(("", None))
        talk.remove(("", ""))
        talk.describe()
        talk.remove(("", "ia"))
        talk.stay("a", 2, 0, 1, 2, 3, instance_id="ia")
        talk.describe()
        talk.join("a", instance_id="ia")
        talk.stay("a", -2, reports=False, instance_id="ia")
        talk.remove(("", "ia"))  # it is away
        talk.describe()
        talk.join("b", instance_id="ib")
        talk.remove(("b", "ib"))
        talk.join("c", instance_id="ic")
        talk.remove(("c", None))
        talk.join("d")
        talk.remove(("d", None), version=2)
        talk.remove(("d", None), version=0)
        talk.describe()
        for version in (3, 4):
            talk.join("e", instance_id="ie")
            talk.remove(("", "ie"), version=version)
        talk.join("f", instance_id="if")
        talk.join("g", instance_id="ig")
        talk.remove(("", "none"), ("", "if"), ("", "if"), ("f", None), ("g", "if"), ("", "ig"))
        talk.describe()
        talk.remove(("", "ig"))

    assert_same_answers(converse)
