"""What `penstock groups` shows of a group: tables for people, values for JSON."""

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.cli.show import print_table, say
from penstock.cli.times import duration_text
from penstock.client.admin.group_lag import PartitionLag
from penstock.client.admin.group_reset import Step
from penstock.client.admin.groups import GroupDescription, GroupMember, ListedGroup
from penstock.model.identity import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupReport:
    group: GroupDescription
    lags: Sequence[PartitionLag]

    def owner_of(self, place: TopicPartition) -> GroupMember | None:
        return next((m for m in self.group.members if place in m.assigned), None)


def show_report(report: GroupReport) -> None:
    group = report.group
    say(
        f"{group.group_id}  state {group.state}  type {group.kind.value}"
        f"  assignor {group.assignor or '-'}  coordinator {group.coordinator}"
        f"  members {len(group.members)}  lag {total_lag(report.lags)}"
    )
    print_table(
        ("topic", "partition", "committed", "end", "lag", "behind", "member", "client", "host"),
        (_lag_row(report, one) for one in report.lags),
    )
    if group.members:
        print_table(
            ("member", "instance", "client", "host", "epoch", "partitions", "assigned"),
            (
                (
                    member.member_id,
                    member.instance_id,
                    member.client_id,
                    member.host,
                    member.epoch,
                    len(member.assigned),
                    scopes(member.assigned) or "-",
                )
                for member in group.members
            ),
        )


def report_value(report: GroupReport) -> dict[str, object]:
    group = report.group
    return {
        "group": group.group_id,
        "state": group.state,
        "type": group.kind.value,
        "protocol_type": group.protocol_type,
        "assignor": group.assignor,
        "epoch": group.epoch,
        "coordinator": group.coordinator,
        "lag": total_lag(report.lags),
        "partitions": [_lag_value(report, one) for one in report.lags],
        "members": [_member_value(member) for member in group.members],
    }


def listed_value(group: ListedGroup) -> dict[str, object]:
    return {
        "group": group.group_id,
        "state": group.state,
        "type": group.kind.value,
        "protocol_type": group.protocol_type,
    }


def step_value(step: Step) -> dict[str, object]:
    topic, partition = step.partition
    return {"topic": topic, "partition": partition, "old": step.old, "new": step.new}


def total_lag(lags: Sequence[PartitionLag]) -> int:
    return sum(one.lag.records for one in lags if one.lag is not None)


def scopes(places: Sequence[TopicPartition]) -> str:
    """`orders:0,1 clicks:2`, the form in which the command line takes them."""
    topics: dict[str, list[str]] = {}
    for topic, index in places:
        topics.setdefault(topic, []).append(str(index))
    return " ".join(f"{topic}:{','.join(indexes)}" for topic, indexes in topics.items())


def _lag_row(report: GroupReport, one: PartitionLag) -> tuple[object, ...]:
    owner = report.owner_of(one.partition)
    return (
        one.partition.topic,
        one.partition.partition,
        None if one.committed is None else one.committed.offset,
        one.end_offset,
        None if one.lag is None else one.lag.records,
        None if one.lag is None or one.lag.age_ms is None else duration_text(one.lag.age_ms),
        None if owner is None else owner.member_id,
        None if owner is None else owner.client_id,
        None if owner is None else owner.host,
    )


def _lag_value(report: GroupReport, one: PartitionLag) -> dict[str, object]:
    owner, behind = report.owner_of(one.partition), one.lag
    return {
        "topic": one.partition.topic,
        "partition": one.partition.partition,
        "committed": None if one.committed is None else one.committed.offset,
        "metadata": None if one.committed is None else one.committed.metadata,
        "start_offset": one.start_offset,
        "end_offset": one.end_offset,
        "lag": None if behind is None else behind.records,
        "lag_ms": None if behind is None else behind.age_ms,
        "missed": None if behind is None else behind.missed,
        "member": None if owner is None else owner.member_id,
    }


def _member_value(member: GroupMember) -> dict[str, object]:
    return {
        "member": member.member_id,
        "instance": member.instance_id,
        "client": member.client_id,
        "host": member.host,
        "epoch": member.epoch,
        "subscribed": list(member.subscribed),
        "subscribed_pattern": member.subscribed_pattern,
        "assigned": [list(place) for place in member.assigned],
        "target": None if member.target is None else [list(place) for place in member.target],
    }
