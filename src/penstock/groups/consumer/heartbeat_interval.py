"""The heartbeat interval of members, which is also how fast they learn of changes.

It is short while partitions are handed over, at most half a second in small settled groups, and
longer the more members this node has, so that all heartbeats together stay within its budget. An
interval that was set explicitly, for the group or for all, is used as it is.
"""

from penstock.groups.decision_context import DecisionContext

RECONCILING_MS = 100
SETTLED_MS = 400
HEARTBEATS_PER_SECOND_MAX = 1000  # of all members on a node together
INTERVAL_SETTING = "group.consumer.heartbeat.interval.ms"
HEARTBEATS_PER_SESSION_MIN = 3  # a lost one must not end the session


def heartbeat_interval_ms(group_id: str, *, is_settled: bool, context: DecisionContext) -> int:
    settings = context.settings_of(group_id)
    if INTERVAL_SETTING in settings.given:
        return settings.group_consumer_heartbeat_interval_ms
    wanted = SETTLED_MS if is_settled else RECONCILING_MS
    affordable = context.members_on_node * 1000 // HEARTBEATS_PER_SECOND_MAX
    longest = min(
        settings.group_consumer_heartbeat_interval_ms,
        settings.group_consumer_session_timeout_ms // HEARTBEATS_PER_SESSION_MIN,
    )
    return max(min(max(wanted, affordable), longest), 1)
