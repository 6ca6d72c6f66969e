"""A member under KIP-848, by itself: what it asks, and when it gives up and takes on."""

from penstock.client.consume.membership.member import Assign, Change, Lose, Revoke
from penstock.client.consume.membership.modern import ModernMember, ModernSubscription
from penstock.client.network.routing import ClusterView, TopicView
from penstock.model.error import ErrorCode
from penstock.model.identity import TopicId, TopicPartition
from penstock.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

ID = TopicId(b"t" * 16)
VIEW = ClusterView(topics={"t": TopicView(name="t", topic_id=ID, internal=False, partitions=())})
SUBSCRIPTION = ModernSubscription(group="g", topics=("t",), rebalance_ms=9_000)


def places(*indexes: int) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition("t", index) for index in indexes)


def told(*indexes: int) -> Assignment:
    return Assignment(topic_partitions=[TopicPartitions(topic_id=ID, partitions=list(indexes))])


class Conversation:
    """A member, and a clock that stands at the moment of the last answer."""

    def __init__(self, subscription: ModernSubscription = SUBSCRIPTION) -> None:
        self.member = ModernMember(subscription, member_id="me")
        self.now_ms = 0

    def asked(self) -> ConsumerGroupHeartbeatRequest | None:
        question = self.member.request(VIEW, now_ms=self.now_ms)
        if question is None:
            return None
        assert isinstance(question.request, ConsumerGroupHeartbeatRequest)
        return question.request

    def answer(
        self,
        *,
        epoch: int = 1,
        assignment: Assignment | None = None,
        code: ErrorCode = ErrorCode.NONE,
    ) -> None:
        reply = ConsumerGroupHeartbeatResponse(
            error_code=code,
            member_id="me",
            member_epoch=epoch,
            heartbeat_interval_ms=500,
            assignment=assignment,
        )
        self.member.answered(reply, VIEW, now_ms=self.now_ms)

    def carry_out(self) -> list[Change]:
        changes = []
        while (change := self.member.take_change()) is not None:
            changes.append(change)
            self.member.carried_out(change, now_ms=self.now_ms)
        return changes

    def put_back(self, partitions: tuple[TopicPartition, ...]) -> None:
        """As after a try in vain to take these on."""
        change = self.member.take_change()
        assert change == Assign(partitions)
        assert change is not None
        self.member.put_back(change)

    def join(self, *indexes: int) -> None:
        assert self.asked() is not None
        self.answer(assignment=told(*indexes))
        self.carry_out()
        acknowledged = self.asked()
        assert acknowledged is not None
        assert acknowledged.topic_partitions == told(*indexes).topic_partitions
        self.answer()


def test_first_heartbeat_says_everything_and_later_ones_nothing_new() -> None:
    talk = Conversation()
    joining = talk.asked()
    assert joining == ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="me",
        member_epoch=0,
        rebalance_timeout_ms=9_000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    assert talk.asked() is None, "one question at a time"
    talk.answer(epoch=4)
    assert talk.asked() is None
    talk.now_ms = 500
    assert talk.asked() == ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="me", member_epoch=4
    )


def test_assignment_is_carried_out_and_acknowledged_at_once() -> None:
    talk = Conversation()
    talk.asked()
    talk.answer(assignment=told(0, 1))
    assert talk.asked() is None, "there is nothing to say before it is carried out"
    assert talk.carry_out() == [Assign(places(0, 1))]
    acknowledged = talk.asked()
    assert acknowledged is not None
    assert acknowledged.topic_partitions == told(0, 1).topic_partitions


def test_partitions_are_given_up_before_others_are_taken_on() -> None:
    talk = Conversation()
    talk.join(0, 1)
    talk.now_ms = 500
    talk.asked()
    talk.answer(epoch=2, assignment=told(1, 2))
    assert talk.carry_out() == [Revoke(places(0)), Assign(places(2))]
    acknowledged = talk.asked()
    assert acknowledged is not None
    assert acknowledged.topic_partitions == told(1, 2).topic_partitions


def test_heartbeats_go_on_while_a_change_waits_for_the_user() -> None:
    talk = Conversation()
    talk.join(0, 1)
    talk.now_ms = 500
    talk.asked()
    talk.answer(epoch=2, assignment=told(1))
    talk.now_ms = 1_000
    beat = talk.asked()
    assert beat is not None
    assert beat.topic_partitions is None, "it still owns what it is to give up"
    assert talk.member.owned == places(0, 1)


def test_partitions_taken_back_before_they_were_taken_on_are_reported_as_not_owned() -> None:
    talk = Conversation()
    talk.asked()
    talk.answer(assignment=told(0, 1))
    talk.now_ms = 500
    beat = talk.asked()
    assert beat is not None
    assert beat.topic_partitions is None
    talk.answer(assignment=Assignment())
    assert talk.carry_out() == []
    acknowledged = talk.asked()
    assert acknowledged is not None, "the coordinator waits for it"
    assert acknowledged.topic_partitions == []
    talk.answer(epoch=2)
    assert talk.asked() is None


def test_partitions_being_taken_on_are_reported_after_a_lost_reply() -> None:
    talk = Conversation()
    talk.asked()
    talk.answer(assignment=told(0))
    change = talk.member.take_change()
    talk.now_ms = 500
    talk.asked()
    talk.member.unanswered(now_ms=500)
    talk.now_ms = 1_000
    beat = talk.asked()
    assert beat is not None
    assert beat.topic_partitions == told(0).topic_partitions
    talk.answer()
    assert change is not None
    talk.member.carried_out(change, now_ms=1_000)
    assert talk.member.owned == places(0)


def test_change_carried_out_while_a_heartbeat_is_on_its_way_is_acknowledged_after_it() -> None:
    talk = Conversation()
    talk.join(0, 1)
    talk.now_ms = 500
    talk.asked()
    talk.answer(epoch=2, assignment=told(1))
    talk.now_ms = 1_000
    talk.asked()
    talk.carry_out()
    talk.answer(epoch=2)
    acknowledged = talk.asked()
    assert acknowledged is not None
    assert acknowledged.topic_partitions == told(1).topic_partitions


def test_fenced_member_loses_all_and_joins_again() -> None:
    talk = Conversation()
    talk.join(0)
    talk.now_ms = 500
    talk.asked()
    talk.answer(code=ErrorCode.FENCED_MEMBER_EPOCH)
    assert talk.asked() is None, "the loss comes first"
    assert talk.carry_out() == [Lose(places(0))]
    again = talk.asked()
    assert again is not None
    assert (again.member_epoch, again.topic_partitions) == (0, [])
    assert again.subscribed_topic_names == ["t"]


def test_heartbeat_without_an_answer_is_followed_by_one_that_says_everything() -> None:
    talk = Conversation()
    talk.join(0)
    talk.now_ms = 500
    talk.asked()
    talk.member.unanswered(now_ms=500)
    talk.now_ms = 600
    again = talk.asked()
    assert again is not None
    assert (again.member_epoch, again.subscribed_topic_names) == (1, ["t"])
    assert again.topic_partitions == told(0).topic_partitions


def test_refusal_that_no_repetition_cures_ends_the_membership() -> None:
    talk = Conversation()
    talk.asked()
    talk.answer(code=ErrorCode.UNSUPPORTED_ASSIGNOR)
    assert talk.member.error is not None
    assert talk.member.error.code == ErrorCode.UNSUPPORTED_ASSIGNOR
    talk.now_ms = 60_000
    assert talk.asked() is None


def test_topic_of_an_unknown_id_is_left_out() -> None:
    talk = Conversation()
    talk.asked()
    deleted = TopicPartitions(topic_id=b"d" * 16, partitions=[0])
    assignment = told(0)
    assignment.topic_partitions.append(deleted)
    talk.answer(assignment=assignment)
    assert talk.carry_out() == [Assign(places(0))]


def test_assignment_with_a_topic_of_an_unknown_id_is_asked_for_again() -> None:
    talk = Conversation()
    talk.asked()
    created = TopicPartitions(topic_id=b"c" * 16, partitions=[0])
    talk.answer(assignment=Assignment(topic_partitions=[created]))
    talk.now_ms = 500
    again = talk.asked()
    assert again is not None
    assert again.subscribed_topic_names == ["t"], "a full one: the reply has the assignment"
    talk.answer(assignment=told(0))
    assert talk.carry_out() == [Assign(places(0))]
    acknowledged = talk.asked()
    assert acknowledged is not None
    assert acknowledged.subscribed_topic_names is None


def test_member_says_good_bye_and_a_static_one_that_it_will_be_back() -> None:
    def farewell(instance_id: str | None) -> int:
        subscription = ModernSubscription(group="g", topics=("t",), instance_id=instance_id)
        talk = Conversation(subscription)
        assert talk.member.leave() is None, "it has not joined yet"
        talk.join(0)
        question = talk.member.leave()
        assert question is not None
        assert isinstance(question.request, ConsumerGroupHeartbeatRequest)
        return question.request.member_epoch

    assert farewell(None) == -1
    assert farewell("instance") == -2


def test_change_that_could_not_be_carried_out_comes_again() -> None:
    talk = Conversation()
    talk.asked()
    talk.answer(assignment=told(0))
    change = talk.member.take_change()
    assert change is not None
    talk.member.put_back(change)
    assert talk.carry_out() == [Assign(places(0))]


def member_with_a_partition_that_cannot_be_taken_on_yet() -> Conversation:
    """It owns 0 and 1; 2 was assigned too, and put back."""
    talk = Conversation()
    talk.join(0, 1)
    talk.now_ms = 500
    talk.asked()
    talk.answer(epoch=2, assignment=told(0, 1, 2))
    talk.put_back(places(2))
    return talk


def test_revocation_is_acknowledged_while_other_partitions_cannot_be_taken_on_yet() -> None:
    talk = member_with_a_partition_that_cannot_be_taken_on_yet()
    talk.now_ms = 1_000
    talk.asked()
    talk.answer(epoch=2, assignment=told(1, 2))
    talk.now_ms = 1_100
    assert talk.asked() is None, "the revocation comes first"
    revoke = talk.member.take_change()
    assert revoke == Revoke(places(0))
    assert revoke is not None
    talk.member.carried_out(revoke, now_ms=talk.now_ms)
    talk.put_back(places(2))
    acknowledged = talk.asked()
    assert acknowledged is not None
    # 2 may be taken on before the answer is there: who reported it as not owned would lose it.
    assert acknowledged.topic_partitions == told(1, 2).topic_partitions
    talk.answer(epoch=2)
    assert talk.asked() is None, "once"


def test_partition_taken_back_is_acknowledged_while_another_cannot_be_taken_on_yet() -> None:
    talk = member_with_a_partition_that_cannot_be_taken_on_yet()
    talk.now_ms = 1_000
    talk.asked()
    talk.answer(epoch=2, assignment=told(0, 1, 2, 3))
    talk.now_ms = 1_500
    talk.asked()
    talk.answer(epoch=2, assignment=told(0, 1, 3))
    talk.put_back(places(3))
    acknowledged = talk.asked()
    assert acknowledged is not None
    assert acknowledged.topic_partitions == told(0, 1, 3).topic_partitions


def member_that_takes_on_what_is_taken_back() -> tuple[Conversation, Change]:
    """It owns 0 and 1, and tries 2 once more, which has gone to another."""
    talk = member_with_a_partition_that_cannot_be_taken_on_yet()
    taking_on = talk.member.take_change()
    assert taking_on is not None
    talk.now_ms = 1_000
    talk.asked()
    talk.answer(epoch=2, assignment=told(0, 1))
    assert talk.asked() is None
    return talk, taking_on


def test_partition_taken_back_while_it_is_taken_on_is_not_reported_as_given_up() -> None:
    talk, taking_on = member_that_takes_on_what_is_taken_back()
    talk.member.carried_out(taking_on, now_ms=talk.now_ms)
    assert talk.carry_out() == [Revoke(places(2))]
    acknowledged = talk.asked()
    assert acknowledged is not None
    assert acknowledged.topic_partitions == told(0, 1).topic_partitions


def test_partition_taken_back_while_it_is_tried_in_vain_is_acknowledged_at_once() -> None:
    talk, taking_on = member_that_takes_on_what_is_taken_back()
    talk.member.put_back(taking_on)
    acknowledged = talk.asked()
    assert acknowledged is not None
    assert acknowledged.topic_partitions == told(0, 1).topic_partitions


def test_assigned_partition_that_may_be_taken_on_is_reported_after_a_lost_reply() -> None:
    talk = member_with_a_partition_that_cannot_be_taken_on_yet()
    talk.now_ms = 1_000
    talk.asked()
    talk.member.unanswered(now_ms=1_000)
    talk.now_ms = 1_500
    beat = talk.asked()
    assert beat is not None
    assert beat.topic_partitions == told(0, 1, 2).topic_partitions
