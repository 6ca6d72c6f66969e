"""Consumer groups: how far they are behind, and those that nobody is a member of."""

from penstock.doctor.finding import Advice, Command, Finding, counted, fail, finding, unknown, warn
from penstock.doctor.seen import ClusterSeen, GroupSeen, Limits, Unseen
from penstock.model.group_name import is_of_replay, is_to_have_members

DEAD = "Dead"
PARTITIONS_TOLD = 3


def lag(seen: ClusterSeen, limits: Limits) -> Finding:
    check = "lag"
    if isinstance(seen.groups, Unseen):
        return finding(check, [unknown(seen.groups.reason)], passed="")
    faults = []
    for group in _consumers(seen):
        if isinstance(group.lag, Unseen):
            faults.append(unknown(group.lag.reason))
            continue
        lags = [one.lag for one in group.lag if one.lag is not None]
        age_ms = max((one.age_ms for one in lags if one.age_ms is not None), default=0)
        records = sum(one.records for one in lags)
        if age_ms > limits.lag_ms_max:
            reason = (
                f"{group.group_id} is {age_ms // 1000:,} s behind, by {counted(records, 'record')}"
            )
            what = "add consumers to" if group.members else "start the consumers of"
            faults.append(fail(reason, Advice(text=f"{what} {group.group_id}")))
        elif group.unread:
            named = ", ".join(map(str, group.unread[:PARTITIONS_TOLD]))
            more = "" if len(group.unread) <= PARTITIONS_TOLD else ", ..."
            where = f"{counted(len(group.unread), 'partition')}: {named}{more}"
            faults.append(unknown(f"how far {group.group_id} is behind is not known in {where}"))
    count = counted(len(_consumers(seen)), "group")
    return finding(
        check, faults, passed=f"{count}, none more than {limits.lag_ms_max / 1000:g} s behind"
    )


def empty_groups(seen: ClusterSeen, limits: Limits) -> Finding:
    check = "empty-groups"
    if isinstance(seen.groups, Unseen):
        return finding(check, [unknown(seen.groups.reason)], passed="")
    faults = []
    for group in _consumers(seen):
        if group.members or not group.state or not is_to_have_members(group.group_id):
            continue
        if isinstance(group.lag, Unseen):
            faults.append(unknown(group.lag.reason))
        elif any(one.committed is not None for one in group.lag):
            reason = f"{group.group_id} has offsets and no members"
            advice = "start its consumers; if it is not used any more"
            delete = Command(verb="groups delete", names=(group.group_id,))
            faults.append(warn(reason, Advice(text=advice, command=delete)))
    return finding(check, faults, passed="every group of consumers that has offsets has members")


def offset_reset(seen: ClusterSeen, limits: Limits) -> Finding:
    reason = "auto.offset.reset is a client's own setting: no request carries it"
    advice = "earliest reads what came before a group's first commit, latest skips it"
    return finding("offset-reset", [unknown(reason, Advice(text=advice))], passed="")


def _consumers(seen: ClusterSeen) -> list[GroupSeen]:
    """Those that are to keep up: a replay of dead letters only notes how far it got."""
    assert not isinstance(seen.groups, Unseen)
    return [
        group for group in seen.groups if group.state != DEAD and not is_of_replay(group.group_id)
    ]
