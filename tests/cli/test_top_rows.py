"""What `penstock top` makes of two samples, and how it draws that. Pure."""

from collections.abc import Sequence
from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from penstock.alerts.machine import State, Transition
from penstock.alerts.report import Report, report_of
from penstock.alerts.rule import Rule
from penstock.alerts.rules import DISK_FILLING, GROUP_LAG, OFFLINE_PARTITIONS, PRODUCE_SLOW
from penstock.cli.top_draw import drawn, natural_width, shared
from penstock.cli.top_rows import NodeState, Picture, ProblemKind, picture_of
from penstock.cli.top_values import picture_value
from penstock.client.admin.admin import BrokerDescription
from penstock.client.admin.cluster_sample import ClusterSample, NodeAnswer
from penstock.client.admin.group_samples import GroupSample
from penstock.client.admin.groups import GroupKind
from penstock.client.network.routing import BrokerView, ClusterView, PartitionView, TopicView
from penstock.model.identity import NO_TOPIC_ID, NodeId, TopicPartition
from penstock.model.offset import LeaderEpoch, Offset
from penstock.world.ports import Address

NODES = (NodeId(1), NodeId(2), NodeId(3))
HOSTILE = "evil\x1b[2J\nforged \u202e[red]x[/red]"


def partition(index: int, leader: int | None, in_sync: Sequence[int]) -> PartitionView:
    return PartitionView(
        index=index,
        leader=None if leader is None else NodeId(leader),
        leader_epoch=LeaderEpoch(0),
        replicas=NODES,
        in_sync=tuple(map(NodeId, in_sync)),
    )


def sample(
    at_ms: int,
    topics: dict[str, list[PartitionView]],
    answers: dict[int, NodeAnswer],
    *,
    fenced: Sequence[int] = (),
    known: Sequence[int] = (1, 2, 3),
    in_sync_min: int = 2,
    refused: Sequence[str] = (),
    alerts: Sequence[Report] = (),
    alerts_off: Sequence[int] = (),
) -> ClusterSample:
    alive = [NodeId(node) for node in known if node not in fenced]
    return ClusterSample(
        at_ms=at_ms,
        view=ClusterView(
            cluster_id="c",
            brokers={
                node: BrokerView(node_id=node, address=Address(host="h", port=9)) for node in alive
            },
            topics={
                name: TopicView(
                    name=name, topic_id=NO_TOPIC_ID, internal=False, partitions=tuple(partitions)
                )
                for name, partitions in topics.items()
            },
        ),
        controller=NodeId(1),
        brokers=tuple(
            BrokerDescription(
                node_id=NodeId(node), host="h", port=9, rack=None, fenced=node in fenced
            )
            for node in known
        ),
        answers={NodeId(node): answer for node, answer in answers.items()},
        in_sync_min=dict.fromkeys(topics, in_sync_min),
        refused=refused,
        alerts=alerts,
        alerts_off=frozenset(map(NodeId, alerts_off)),
    )


def fires(rule: Rule, value: float, *, node: int = 1, subject: str = "") -> Report:
    told = Transition(rule=rule, subject=subject, state=State.FIRING, value=value)
    return report_of(told, node_id=NodeId(node), is_broker=True, now_ms=1)


def answer(
    ends: dict[TopicPartition, tuple[int, int, int]], groups: Sequence[GroupSample] = ()
) -> NodeAnswer:
    """Of partitions that it leads, each with its start, its end and its size."""
    return NodeAnswer(
        start_offset={place: Offset(one[0]) for place, one in ends.items()},
        end_offset={place: Offset(one[1]) for place, one in ends.items()},
        size_bytes={place: one[2] for place, one in ends.items()},
        groups=list(groups),
    )


def group(
    name: str, committed: dict[TopicPartition, int], *, kind: GroupKind = GroupKind.CLASSIC
) -> GroupSample:
    offsets = {place: Offset(offset) for place, offset in committed.items()}
    return GroupSample(group_id=name, kind=kind, state="Stable", members=2, committed=offsets)


A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
TOPICS = {
    "a": [partition(0, 1, (1, 2, 3)), partition(1, 2, (1, 2, 3))],
    "b": [partition(0, 3, (1, 2, 3))],
}


def whole(at_ms: int, ends: tuple[int, int, int], groups: Sequence[GroupSample]) -> ClusterSample:
    answers = {
        1: answer({A0: (0, ends[0], ends[0] * 100)}, groups),
        2: answer({A1: (0, ends[1], ends[1] * 100)}),
        3: answer({B0: (5, ends[2], ends[2] * 10_000)}),
    }
    return sample(at_ms, TOPICS, answers)


def test_rates_are_differences_over_the_time_between_the_samples() -> None:
    picture = picture_of(whole(1_000, (10, 10, 10), ()), whole(3_000, (30, 50, 12), ()))
    assert picture.seconds == 2
    assert [(row.name, row.records_per_second, row.bytes_per_second) for row in picture.topics] == [
        ("b", 1, 10_000),
        ("a", 30, 3_000),
    ]
    assert picture.topics[1].size_bytes == 8_000


def test_without_a_first_sample_rates_are_not_known() -> None:
    picture = picture_of(None, whole(1_000, (10, 10, 10), ()))
    assert picture.seconds is None
    assert {row.records_per_second for row in picture.topics} == {None}
    assert [row.size_bytes for row in picture.topics] == [100_000, 2_000]


def test_groups_are_sorted_by_lag_and_what_nobody_knows_is_last() -> None:
    groups = [
        group("idle", {A0: 30}),
        group("shares", {}, kind=GroupKind.SHARE),
        group("slow", {A0: 10, A1: 0, B0: 0}),  # the log of b begins at 5
        group("quick", {A0: 31}),  # committed after the end was asked for
        group("gone", {TopicPartition("deleted", 0): 7}),
    ]
    picture = picture_of(None, whole(1_000, (30, 50, 12), groups))
    assert [(row.group_id, row.lag) for row in picture.groups] == [
        ("slow", 20 + 50 + 7),
        ("idle", 0),
        ("quick", 0),
        ("gone", None),
        ("shares", None),
    ]


def test_a_partition_is_told_once_with_its_worst_problem_and_the_worst_come_first() -> None:
    topics = {
        "a": [partition(0, 1, (1, 2)), partition(1, 1, (1,))],
        "b": [partition(0, None, ()), partition(1, 1, (1, 2, 3))],
    }
    silent = NodeAnswer(silent="no answer within 5000 ms")
    told = sample(1, topics, {1: answer({}), 2: silent}, fenced=[3])
    picture = picture_of(None, told)
    assert [(row.kind, row.about, row.detail) for row in picture.problems] == [
        (ProblemKind.NODE, "node 2", "no answer: no answer within 5000 ms"),
        (ProblemKind.NODE, "node 3", "fenced"),
        (ProblemKind.OFFLINE, "b-0", "in sync 0 of 3, min 2, missing 1,2,3"),
        (ProblemKind.UNDER_MIN_IN_SYNC, "a-1", "in sync 1 of 3, min 2, missing 2,3"),
        (ProblemKind.UNDER_REPLICATED, "a-0", "in sync 2 of 3, min 2, missing 3"),
    ]
    assert [row.state for row in picture.nodes] == [
        NodeState.UP,
        NodeState.SILENT,
        NodeState.FENCED,
    ]


def test_alerts_that_fire_are_the_last_problems_with_critical_ones_first() -> None:
    reports = [
        fires(DISK_FILLING, 0.914, node=77, subject="/data"),
        fires(PRODUCE_SLOW, 1500.4),
        fires(OFFLINE_PARTITIONS, 2),
    ]
    told = sample(1, {"a": [partition(0, 1, (1, 2))]}, {1: answer({})}, alerts=reports)
    found = [(row.kind, row.about, row.detail) for row in picture_of(None, told).problems]
    kind = ProblemKind.ALERT
    assert [one for one in found if one[0] is ProblemKind.UNDER_REPLICATED] == found[-4:-3]
    assert found[-3:] == [
        (kind, "PenstockOfflinePartitions", "critical, 2"),
        (kind, "PenstockDiskFilling", "warning, node 77 (away), /data, 91.4%"),
        (kind, "PenstockProduceSlow", "warning, node 1, 1500ms"),
    ]


def test_alerts_that_nobody_evaluates_any_more_are_marked() -> None:
    reports = [fires(OFFLINE_PARTITIONS, 2), fires(PRODUCE_SLOW, 1500.4)]
    some = sample(1, {}, {}, alerts=reports, alerts_off=(1,))
    assert [row.detail for row in picture_of(None, some).problems[-2:]] == [
        "critical, 2",  # another node may be the active controller
        "warning, node 1 (off), 1500ms",
    ]
    everybody = sample(1, {}, {}, alerts=reports, alerts_off=(1, 2, 3))
    assert picture_of(None, everybody).problems[-2].detail == "critical, cluster (off), 2"


def test_a_node_that_nobody_knows_any_more_is_offline_and_keeps_its_host_for_a_while() -> None:
    before = whole(1, (1, 1, 1), ())
    after = sample(2, TOPICS, {1: answer({}), 2: answer({})}, known=(1, 2))
    node = picture_of(before, after).nodes[2]
    assert (node.state, node.host, node.replicas, node.log_bytes) == (
        NodeState.OFFLINE,
        "h",
        3,
        None,
    )
    assert picture_of(after, after).nodes[2].host is None


def test_refused_questions_are_told_and_their_figures_are_not_zero() -> None:
    shy = NodeAnswer(refused=["broker 1: CLUSTER_AUTHORIZATION_FAILED"])
    told = sample(1, {"a": [partition(0, 1, (1, 2, 3))]}, {1: shy}, refused=["no controller"])
    picture = picture_of(told, told)
    assert picture.unknown == ("no controller", "broker 1: CLUSTER_AUTHORIZATION_FAILED")
    assert picture.nodes[0].log_bytes is None
    assert picture.topics[0].records_per_second is None


def text_of(
    picture: Picture, *, width: int, height: int | None = None, away: str | None = None
) -> str:
    console = Console(file=StringIO(), width=width, height=height, color_system=None)
    console.print(drawn(picture, width=width, height=height, top=20, status="now", away=away))
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def hostile() -> Picture:
    topics = {HOSTILE: [partition(0, 1, (1,))], "a" * 249: [partition(0, 1, (1, 2, 3))]}
    place = TopicPartition(HOSTILE, 0)
    groups = [group(HOSTILE + str(index), {place: 0}) for index in range(40)]
    told = answer({place: (0, 10**12, 10**15)}, groups)
    return picture_of(
        None,
        sample(
            1,
            topics,
            {1: told},
            fenced=[2, 3],
            refused=[HOSTILE],
            alerts=[fires(GROUP_LAG, 400, subject=HOSTILE)],
        ),
    )


@pytest.mark.parametrize("width", [20, 40, 60, 80, 200])
@pytest.mark.parametrize("height", [10, 24, 60])
def test_a_picture_fits_and_nothing_in_it_commands_the_terminal(width: int, height: int) -> None:
    text = text_of(hostile(), width=width, height=height, away=HOSTILE)
    lines = text.split("\n")
    assert all(line.isprintable() for line in lines)
    assert max(map(len, lines)) <= width
    assert "forged" not in [line.strip() for line in lines]


def test_at_sixty_columns_what_matters_is_there_and_numbers_are_whole() -> None:
    text = text_of(hostile(), width=60)
    assert "evil\\x1b[2J" in text
    assert "1,000,000,000,000" in text
    assert "1.00 PB" in text
    assert "under min in-sync" in text
    assert "groups (20 of 40)" in text


def test_in_full_nothing_is_cut() -> None:
    picture = hostile()
    wide = text_of(picture, width=natural_width(picture, top=20))
    assert "a" * 249 in wide
    assert "…" not in wide


def test_rows_are_shared_one_by_one() -> None:
    assert shared([3, 0, 100, 100], 13) == [3, 0, 5, 5]
    assert shared([3, 1], 100) == [3, 1]
    assert shared([5, 5], 0) == [0, 0]


@given(st.lists(st.integers(0, 50)), st.integers(0, 200))
def test_no_more_rows_are_shared_than_there_are(wanted: list[int], available: int) -> None:
    given_rows = shared(wanted, available)
    assert sum(given_rows) == min(sum(wanted), available)
    assert all(got <= wish for got, wish in zip(given_rows, wanted, strict=True))


def test_json_has_the_first_of_each_and_how_many_there_are() -> None:
    value = picture_value(hostile(), top=1)
    assert value["totals"] == {"nodes": 3, "topics": 2, "groups": 40, "problems": 4}
    assert isinstance(value["groups"], list)
    assert [one["lag"] for one in value["groups"]] == [10**12]
