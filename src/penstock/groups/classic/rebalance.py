"""How a classic group gets from one generation to the next. Start at `prepare_rebalance`.

Each function makes one step in the draft of a decision, together with what follows from it at once,
such as the end of the join phase when no member is missing.
"""

from dataclasses import replace

from penstock.groups.classic.draft import Draft
from penstock.groups.classic.group import ClassicGroup, ClassicState, InitialDelay
from penstock.groups.classic.replies import joined, sync_refused
from penstock.groups.timers import JoinEnds, SyncEnds
from penstock.model.error import ErrorCode
from penstock.model.limit import HANDSHAKE_MS_MAX

AWAY_WAIT_MS_MIN = 1000  # a member names its own time-out, and may name none


def rebalance_or_complete_join(draft: Draft) -> None:
    """A member joined, left or changed: continues the current rebalance, or begins one."""
    if draft.group.state is ClassicState.PREPARING:
        complete_join_if_ready(draft)
    else:
        prepare_rebalance(draft)


def prepare_rebalance(draft: Draft) -> None:
    group = draft.group
    if group.state is ClassicState.COMPLETING:
        void_assignment(draft, ErrorCode.REBALANCE_IN_PROGRESS)
    group.unsynced.clear()
    draft.cancel(SyncEnds(group=group.group_id))
    was_empty = group.state is ClassicState.EMPTY
    group.become(ClassicState.PREPARING, now_ms=draft.context.now_ms)
    if was_empty:
        _await_first_members(draft)
    elif group.all_joined:
        complete_join(draft)
    else:
        draft.wait(JoinEnds(group=group.group_id), for_ms=group.rebalance_timeout_ms)


def complete_join_if_ready(draft: Draft) -> None:
    """The first rebalance of a group waits for its whole delay, since more members may join."""
    group = draft.group
    assert group.state is ClassicState.PREPARING
    if group.initial is None and group.all_joined:
        complete_join(draft)


def extend_initial_delay(draft: Draft) -> bool:
    """At the end of a step of the initial delay: whether there is another step.

    There is one while members keep joining, until the rebalance time-out is used up.
    """
    group = draft.group
    initial = group.initial
    if initial is None or not initial.someone_came or initial.left_ms == 0:
        return False
    step_ms = min(draft.context.settings.group_initial_rebalance_delay_ms, initial.left_ms)
    group.initial = InitialDelay(step_ms=step_ms, left_ms=max(initial.left_ms - initial.step_ms, 0))
    draft.wait(JoinEnds(group=group.group_id), for_ms=step_ms)
    return True


def await_handshakes(draft: Draft) -> bool:
    """At the end of the initial delay: whether the first generation waits a little longer.

    Members that have just been given their ids join again at once. Beginning without them, as
    Apache Kafka does, costs the group a second rebalance, which takes a heartbeat interval.
    """
    group = draft.group
    if group.initial is None or not group.pending:
        return False
    group.initial = None
    draft.wait(JoinEnds(group=group.group_id), for_ms=HANDSHAKE_MS_MAX)
    return True


def complete_join(draft: Draft) -> None:
    """Begins the next generation with the members that joined.

    Dynamic members that did not join are removed; static ones may be restarting, and stay.
    """
    group = draft.group
    assert group.state is ClassicState.PREPARING
    for member in tuple(group.members.values()):
        if member.join_ticket is None and member.instance_id is None:
            draft.remove(member.member_id)
    if group.members and not _elect_joined_leader(group):
        # Only static members are left, and all are away: until one comes or their sessions end.
        wait_ms = max(group.rebalance_timeout_ms, AWAY_WAIT_MS_MIN)
        draft.wait(JoinEnds(group=group.group_id), for_ms=wait_ms)
        return
    draft.cancel(JoinEnds(group=group.group_id))
    group.generation += 1
    if group.members:
        draft.store_present_ids()
        _begin_generation(draft)
    else:
        group.protocol_name = None
        group.become(ClassicState.EMPTY, now_ms=draft.context.now_ms)
        draft.store()


def void_assignment(draft: Draft, code: ErrorCode) -> None:
    """This generation gets no assignment: parked syncs are answered with the reason."""
    group = draft.group
    assert group.state is ClassicState.COMPLETING
    for member_id in tuple(group.members):
        draft.answer_sync(member_id, sync_refused(code))
        group.change(replace(group.members[member_id], assignment=b""))


def _await_first_members(draft: Draft) -> None:
    group = draft.group
    step_ms = draft.context.settings.group_initial_rebalance_delay_ms
    group.initial = InitialDelay(
        step_ms=step_ms, left_ms=max(group.rebalance_timeout_ms - step_ms, 0)
    )
    draft.wait(JoinEnds(group=group.group_id), for_ms=step_ms)


def _elect_joined_leader(group: ClassicGroup) -> bool:
    """Keeps the leader if it joined, else takes the first member that did. False if none did."""
    assert group.leader is not None
    if group.members[group.leader].join_ticket is not None:
        return True
    for member in group.members.values():
        if member.join_ticket is not None:
            group.leader = member.member_id
            return True
    return False


def _begin_generation(draft: Draft) -> None:
    group = draft.group
    group.protocol_name = group.elected_protocol()
    group.become(ClassicState.COMPLETING, now_ms=draft.context.now_ms)
    for member_id in tuple(group.members):
        draft.answer_join(member_id, joined(group, member_id))
        draft.restart_session(member_id)
        group.change(replace(group.members[member_id], is_new=False))
    group.unsynced = set(group.members)
    draft.wait(SyncEnds(group=group.group_id), for_ms=group.rebalance_timeout_ms)
