"""From topics as they are to topics as a topology wants them."""

import pytest

from penstock.client.admin.topology import WantedTopic
from penstock.client.admin.topology_plan import (
    AddPartitions,
    CreateTopic,
    FoundTopic,
    ImpossiblePlan,
    SetSettings,
    plan_topics,
)


def test_only_what_differs_is_done() -> None:
    wanted = {
        "new": WantedTopic(name="new", partitions=3),
        "grows": WantedTopic(name="grows", partitions=3, settings={"a": "1", "b": "2"}),
        "same": WantedTopic(name="same", settings={"a": "1"}),
    }
    found = {
        "grows": FoundTopic(partitions=1, replicas=1, settings={"a": "1"}),
        "same": FoundTopic(partitions=9, replicas=1, settings={"a": "1", "c": "3"}),
        "unnamed": FoundTopic(partitions=1, replicas=1, settings={}),
    }
    assert plan_topics(wanted, found) == [
        CreateTopic(topic=wanted["new"]),
        AddPartitions(name="grows", count=3),
        SetSettings(name="grows", settings={"b": "2"}),
    ]


def test_a_plan_says_that_added_partitions_move_keys() -> None:
    wanted = {"a": WantedTopic(name="a", key="order_id", partitions=3)}
    found = {"a": FoundTopic(partitions=1, replicas=1, settings={})}
    [step] = plan_topics(wanted, found)
    assert str(step) == "alter a: 3 partitions (its order_id may move to another one, out of order)"


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        (WantedTopic(name="a", partitions=2), "a has 3 partitions, and can't go back to 2"),
        (WantedTopic(name="a", replicas=3), "a has 1 replicas, and the file wants 3"),
    ],
)
def test_nothing_is_planned_that_a_topic_cannot_become(wanted: WantedTopic, reason: str) -> None:
    found = {"a": FoundTopic(partitions=3, replicas=1, settings={})}
    with pytest.raises(ImpossiblePlan, match=reason):
        plan_topics({"new": WantedTopic(name="new"), "a": wanted}, found)


def test_partitions_that_were_added_may_stay() -> None:
    wanted = {"a": WantedTopic(name="a", partitions=2, settings={"b": "1"})}
    found = {"a": FoundTopic(partitions=3, replicas=1, settings={})}
    steps = plan_topics(wanted, found, more_partitions=True)
    assert steps == [SetSettings(name="a", settings={"b": "1"})]
    other_replicas = {"a": WantedTopic(name="a", partitions=2, replicas=3)}
    with pytest.raises(ImpossiblePlan, match="replicas"):
        plan_topics(other_replicas, found, more_partitions=True)
