"""Where an authorizer is set, a pattern stands for the topics that the client may describe."""

from dataclasses import replace

from penstock.groups.consumer.group import ConsumerGroup
from penstock.model.error import ErrorCode
from penstock.model.offset import Offset
from penstock.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from rig.group_world import GroupWorld
from rig.modern_consumer import Topics


class GuardedGroup:
    """A world with topics, and a client that may describe some of them."""

    def __init__(self, *described: str) -> None:
        self.topics = Topics({"a1": 1, "a2": 1, "b1": 1})
        self.described = set(described)
        self.world = GroupWorld(image=self.topics.image())
        self.world.may_describe = self.described.__contains__
        self._changes = 0

    def beat(self, member: str = "m", *, epoch: int, regex: str | None = None) -> int:
        """The member's epoch afterwards."""
        request = ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id=member,
            member_epoch=epoch,
            rebalance_timeout_ms=10_000 if regex else -1,
            subscribed_topic_regex=regex,
            topic_partitions=[] if regex else None,
        )
        reply = self.world.answers[self.world.ask(request, version=1)]
        assert isinstance(reply, ConsumerGroupHeartbeatResponse)
        assert reply.error_code == ErrorCode.NONE, reply
        return reply.member_epoch

    def create(self, name: str) -> None:
        """A topic; the access control entries stay as they are."""
        self.topics.create(name, 1)
        entries = self.world.image.acls_by_pattern
        self.world.image = replace(self.topics.image(), acls_by_pattern=entries)

    def change_rights(self, *described: str) -> None:
        """Other entries are another index in the image."""
        self.described.clear()
        self.described.update(described)
        self._changes += 1
        later = Offset(self.world.image.offset + 1000 * self._changes)
        self.world.image = replace(self.world.image, offset=later, acls_by_pattern={})

    @property
    def members(self) -> set[str]:
        return set(self._group.members)

    def matched(self) -> tuple[str, ...]:
        self.world.check()
        [found] = self._group.regexes.values()
        return found

    @property
    def _group(self) -> ConsumerGroup:
        group = self.world.shard.groups["g"]
        assert isinstance(group, ConsumerGroup)
        return group


def test_topics_that_the_client_may_not_describe_do_not_match() -> None:
    guarded = GuardedGroup("a1", "b1")
    guarded.beat(epoch=0, regex="a.*")
    assert guarded.matched() == ("a1",)


def test_a_new_topic_matches_if_it_may_be_described() -> None:
    guarded = GuardedGroup("a1", "a3")
    epoch = guarded.beat(epoch=0, regex="a.*")
    guarded.create("a3")
    guarded.create("a4")
    guarded.beat(epoch=epoch)
    assert guarded.matched() == ("a1", "a3")


def test_rights_that_are_given_and_taken_change_what_matches() -> None:
    guarded = GuardedGroup("a1")
    epoch = guarded.beat(epoch=0, regex="a.*")
    guarded.change_rights("a1", "a2", "b1")
    given = guarded.beat(epoch=epoch)
    assert guarded.matched() == ("a1", "a2")
    assert given > epoch
    guarded.change_rights("a2")
    guarded.beat(epoch=given)
    assert guarded.matched() == ("a2",)


def test_the_end_of_another_members_session_adds_no_topic() -> None:
    guarded = GuardedGroup("a1")
    epoch = guarded.beat(epoch=0, regex="a.*")
    guarded.beat("other", epoch=0, regex="a.*")
    guarded.world.pass_time(30_000)
    epoch = guarded.beat(epoch=epoch)
    guarded.create("a3")
    guarded.world.may_describe = None  # a deadline is nobody's request
    guarded.world.pass_time(20_000)
    assert guarded.members == {"m"}
    assert guarded.matched() == ("a1",)
    guarded.world.may_describe = guarded.described.__contains__
    guarded.described.add("a3")
    guarded.beat(epoch=epoch)
    assert guarded.matched() == ("a1", "a3")


def test_after_a_failover_the_client_is_asked_for_its_rights_again() -> None:
    guarded = GuardedGroup("a1", "a2")
    epoch = guarded.beat(epoch=0, regex="a.*")
    guarded.described.remove("a2")
    guarded.world.fail_over()
    guarded.beat(epoch=epoch)
    assert guarded.matched() == ("a1",)
