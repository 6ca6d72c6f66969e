"""What topics keep: for how long, and letters that nobody has looked at."""

from collections.abc import Mapping

from penstock.client.admin.last_batches import LogRange
from penstock.client.network.routing import TopicView
from penstock.doctor.durability import number
from penstock.doctor.finding import Advice, Command, Finding, counted, fail, finding, unknown, warn
from penstock.doctor.seen import ClusterSeen, Limits, Seen, Unseen
from penstock.model.group_name import REPLAY_GROUP
from penstock.model.identity import TopicPartition
from penstock.model.topic_name import holds_dead_letters

WEEK_MS = 7 * 86_400_000


def retention(seen: ClusterSeen, limits: Limits) -> Finding:
    check = "retention"
    if isinstance(seen.topic_settings, Unseen):
        return finding(check, [unknown(seen.topic_settings.reason)], passed="")
    faults = []
    for topic in seen.own_topics():
        settings = seen.topic_settings.get(topic.name, {})
        if "delete" not in (settings.get("cleanup.policy") or "delete"):
            continue  # compaction keeps it small
        kept_ms, kept_bytes = number(settings.get("retention.ms")), settings.get("retention.bytes")
        mend = Command(
            verb="topics alter", names=(topic.name,), options=("--set", f"retention.ms={WEEK_MS}")
        )
        if kept_ms == -1 and kept_bytes == "-1":
            # It may be meant so, as in a ledger: whoever ran this without a thought would lose it.
            advice = "if it need not, this deletes all records older than 7 days"
            reason = f"{topic.name} keeps all records for ever"
            faults.append(warn(reason, Advice(text=advice, command=mend)))
        elif kept_ms is not None and 0 <= kept_ms < limits.lag_ms_max:
            reason = f"{topic.name} drops records after {kept_ms / 1000:g} s, within the lag SLA"
            faults.append(fail(reason, mend))
    return finding(
        check, faults, passed="records are kept longer than groups lag, and not for ever"
    )


def dead_letters(seen: ClusterSeen, limits: Limits) -> Finding:
    check = "dead-letters"
    topics = [topic for topic in seen.own_topics() if holds_dead_letters(topic.name)]
    if isinstance(seen.logs, Unseen):
        return finding(check, [unknown(seen.logs.reason)], passed="")
    faults = []
    for topic in topics:
        done = _replayed(seen, topic)
        count = _held(seen.logs, topic, {} if isinstance(done, Unseen) else done)
        if not count:
            continue
        holds = f"{topic.name} holds {counted(count, 'record')}"
        if isinstance(done, Unseen):
            faults.append(unknown(f"{holds}, replayed or not: {done.reason}", _replay(topic)))
        else:
            faults.append(warn(f"{holds} not replayed", _replay(topic)))
    found = f"{counted(len(topics), 'dead-letter topic')}, nothing waits there"
    return finding(check, faults, passed=found if topics else "there is no dead-letter topic")


def _replay(topic: TopicView) -> Advice:
    """Not a command to be run as it is: before the cause is mended, letters only come back."""
    return Advice(
        text=f"look at them with `penstock dlq list {topic.name}` and mend the cause; what has a"
        " source there goes back to it, and nobody knows where the others came from, as those of"
        " Spring and Connect, which need --to; then",
        command=Command(verb="dlq replay", names=(topic.name,)),
    )


def _replayed(seen: ClusterSeen, topic: TopicView) -> Seen[dict[TopicPartition, int]]:
    """How far a replay has got, by the offsets of its group; nowhere where there is no such one."""
    if isinstance(seen.groups, Unseen):
        return seen.groups
    for group in seen.groups:
        if group.group_id == f"{REPLAY_GROUP}{topic.name}":
            if isinstance(group.lag, Unseen):
                return group.lag
            return {
                one.partition: one.committed.offset
                for one in group.lag
                if one.committed is not None
            }
    return {}


def _held(
    logs: Mapping[TopicPartition, LogRange], topic: TopicView, done: Mapping[TopicPartition, int]
) -> int:
    count = 0
    for one in topic.partitions:
        place = TopicPartition(topic.name, one.index)
        log = logs.get(place)
        if log is not None:
            count += max(0, log.end_offset - max(log.start_offset, done.get(place, 0)))
    return count
