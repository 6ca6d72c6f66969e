"""Two voters that lose their leader at the same time do not keep each other from being elected."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from penstock.raft.effects import Effect, Send
from penstock.raft.messages import FetchRequest, Reply, VoteReply, VoteRequest
from penstock.raft.times import SHORT_WAIT_MS_MAX
from rig.replica import TIMES, Lone, end, fetched, follower, log_of, replies, requests, vote

KILLED = 3


def bereft(node: int, *epochs: int) -> Lone:
    """A voter whose leader has just been killed; its log has a record for each epoch named."""
    log = log_of(*epochs) if epochs else None
    lone = follower(node, of=KILLED, epoch=1, **({} if log is None else {"log": log}))
    (send,) = requests(lone.effects, FetchRequest)
    lone.reply_to(send, fetched(1, KILLED))
    lone.refuse(KILLED)
    return lone


@dataclass(slots=True)
class Race:
    """Two voters, and the messages between them, which may arrive in any order. The time when both
    are to stand has come, and passes no further.
    """

    voters: dict[int, Lone]
    under_way: list[tuple[int, Send, Reply | None]] = field(default_factory=list)  # from whom

    def stand(self, node: int) -> None:
        self._sent(node, self.voters[node].tick(SHORT_WAIT_MS_MAX))

    def deliver(self, at: int) -> None:
        sender, send, reply = self.under_way.pop(at)
        if reply is not None:
            return self._sent(sender, self.voters[sender].reply_to(send, reply))
        effects = self.voters[int(send.to)].receive(send.request)
        (answer,) = replies(effects)
        self.under_way.append((sender, send, answer))
        return self._sent(int(send.to), effects)

    def _sent(self, node: int, effects: list[Effect]) -> None:
        self.under_way += [
            (node, send, None) for send in requests(effects, VoteRequest) if send.to != KILLED
        ]


def choices_of(first: Lone, second: Lone, made: list[int]) -> tuple[list[int], list[str]]:
    """Lets two voters stand, and messages arrive, in the order chosen, then in the first one that
    is possible: how many choices there were at each step, and what both have become.
    """
    race = Race({1: first, 2: second})
    to_stand, counts = [1, 2], []
    while choices := len(to_stand) + len(race.under_way):
        chosen = made[len(counts)] if len(counts) < len(made) else 0
        counts.append(choices)
        if chosen < len(to_stand):
            race.stand(to_stand.pop(chosen))
        else:
            race.deliver(chosen - len(to_stand))
    return counts, [first.role, second.role]


def all_orders(*logs: tuple[int, ...]) -> Iterator[list[str]]:
    """What becomes of both, for each order in which things can happen."""
    made: list[int] = []
    while True:
        counts, roles = choices_of(bereft(1, *logs[0]), bereft(2, *logs[1]), made)
        yield roles
        made += [0] * (len(counts) - len(made))
        while made and made[-1] + 1 == counts[len(made) - 1]:
            made.pop()
        if not made:
            return
        made[-1] += 1


@pytest.mark.parametrize("logs", [((), ()), ((1,), ()), ((), (1,))])
def test_one_of_two_that_stand_at_the_same_time_is_elected(
    logs: tuple[tuple[int, ...], tuple[int, ...]],
) -> None:
    outcomes = list(all_orders(*logs))
    assert len(outcomes) > 10
    for roles in outcomes:
        assert roles.count("leader") == 1


def test_a_voter_that_granted_a_pre_vote_leaves_the_other_time_to_win_once() -> None:
    two = bereft(2)
    two.ask(vote(1, 1, to=2, pre_vote=True))
    assert two.replica.next_deadline_ms() == TIMES.give_way_ms
    two.now_ms = TIMES.give_way_ms - 1
    two.ask(vote(1, 1, to=2, pre_vote=True))
    two.tick(TIMES.give_way_ms)
    assert two.role == "prospective"


def test_a_voter_that_gave_way_stands_again_when_the_other_is_not_elected() -> None:
    two = bereft(2)
    two.tick(SHORT_WAIT_MS_MAX)
    assert two.role == "prospective"
    reply = two.ask(vote(1, 1, to=2, pre_vote=True))
    assert isinstance(reply, VoteReply) and reply.granted
    assert two.role == "follower"
    two.tick(SHORT_WAIT_MS_MAX + TIMES.give_way_ms)
    assert two.role == "prospective"


def test_a_voter_that_stands_does_not_give_way_to_one_with_a_larger_id_and_the_same_log() -> None:
    one = bereft(1)
    one.tick(SHORT_WAIT_MS_MAX)
    one.ask(vote(1, 2, to=1, pre_vote=True))
    assert one.role == "prospective"


def test_a_voter_that_stands_gives_way_to_one_with_a_longer_log() -> None:
    one = bereft(1)
    one.tick(SHORT_WAIT_MS_MAX)
    one.ask(vote(1, 2, to=1, log_end=end(1, 1), pre_vote=True))
    assert one.role == "follower"
