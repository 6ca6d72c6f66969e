"""What a member of a group is to the consumer that it belongs to, whichever protocol it speaks.

    request(now)  ──▶ what to ask of the coordinator now; None while nothing is due
    answered      ◀── its reply; `unanswered` when none came
    take_change   ──▶ partitions to give up or to take on: done by the user's own task, when it
                      polls, so that nobody loses a partition whose records he has in his hands
    carried_out   ◀── when that is done; only then are others told

Invariants:
 1. One change at a time is being carried out, and the member asks for no other partitions
    meanwhile.
 2. `owned` are the partitions whose records the user may be given; they change by changes alone.
"""

from typing import Protocol

from penstock.client.consume.group_offsets import Committer
from penstock.client.network.errors import Refused
from penstock.client.network.routing import ClusterView
from penstock.model.identity import TopicPartition
from penstock.model.lazy_dataclass import dataclass
from penstock.wire.definition import Message

Places = tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class Revoke:
    """Give these up; what was read of them may still be committed."""

    partitions: Places


@dataclass(frozen=True, slots=True)
class Lose:
    """These are gone: somebody else may have them already, and no commit is taken any more."""

    partitions: Places


@dataclass(frozen=True, slots=True)
class Assign:
    """Take these on, from where the group has got to."""

    partitions: Places


Change = Revoke | Lose | Assign


@dataclass(frozen=True, slots=True)
class Question:
    """A request, the type of its reply, and whether the coordinator may keep it waiting.

    One that is not repeatable is sent once: without a reply the member must know, since it would
    say something else the next time.
    """

    request: Message
    reply_type: type[Message]
    may_wait: bool = False
    repeatable: bool = True


class Member(Protocol):
    member_id: str
    owned: Places
    error: Refused | None  # what ended the membership for good
    next_at_ms: int  # when something is due next

    @property
    def committer(self) -> Committer | None:
        """None while it is no member: what it would commit, others may have gone beyond."""

    @property
    def topics_needed(self) -> tuple[str, ...]:
        """Topics that the view must tell of before the next request, or that they do not exist."""

    def request(self, view: ClusterView, *, now_ms: int) -> Question | None: ...

    def answered(self, reply: Message, view: ClusterView, *, now_ms: int) -> None: ...

    def unanswered(self, *, now_ms: int) -> None: ...

    def metadata_changed(self, view: ClusterView, *, now_ms: int) -> None: ...

    def take_change(self) -> Change | None: ...

    def carried_out(self, change: Change, *, now_ms: int) -> None: ...

    def put_back(self, change: Change) -> None:
        """It could not be carried out this time."""

    def has_change(self) -> bool: ...

    def leave(self) -> Question | None:
        """The farewell, if there is anybody to say it to; all that is owned is lost."""


def without(places: Places, gone: Places) -> Places:
    lost = frozenset(gone)
    return tuple(place for place in places if place not in lost)


def united(places: Places, new: Places) -> Places:
    return tuple(sorted({*places, *new}))
