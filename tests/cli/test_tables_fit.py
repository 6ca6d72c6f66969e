"""Tables fit the terminal, and are whole where none is."""

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from hypothesis import given
from hypothesis import strategies as st

from penstock.cli.table_widths import READABLE, ColumnNeed, fitted
from penstock.testing import Broker
from rig.terminal import on_terminal

Run = Callable[..., Any]

LONG = "a-topic-whose-name-is-longer-than-most-terminals-of-eighty-columns-would-like-to-show"


@pytest.mark.parametrize("columns", [60, 80])
@pytest.mark.parametrize(
    "command",
    [
        "topics list",
        "topics offsets",
        "configs describe --broker 1 --all",
        "pipeline list",
        "top --once --interval 0.1",
    ],
)
def test_a_table_is_as_wide_as_the_terminal_at_most(
    command: str, columns: int, penstock: Broker
) -> None:
    penstock.topic(LONG)
    lines = on_terminal(command.split(), columns=columns, bootstrap=penstock.bootstrap)
    assert len(lines) > 3
    assert max(map(len, lines)) <= columns


@pytest.mark.parametrize("columns", [60, 80])
def test_long_names_are_cut_and_numbers_never(columns: int, penstock: Broker) -> None:
    penstock.topic(LONG, partitions=12)
    [row] = [
        line
        for line in on_terminal(["topics", "list"], columns=columns, bootstrap=penstock.bootstrap)
        if line.startswith(" a-topic")
    ]
    name, partitions, replicas, *_ = row.split()
    assert name.endswith("…")
    assert LONG.startswith(name[:-1])
    assert (partitions, replicas) == ("12", "1")


def test_rows_are_lists_where_the_terminal_is_too_narrow_for_a_table(penstock: Broker) -> None:
    topic = penstock.topic(LONG)
    consumer = Consumer({"bootstrap.servers": penstock.bootstrap, "group.id": "billing"})
    consumer.commit(offsets=[TopicPartition(topic, 0, 0)], asynchronous=False)
    consumer.close()
    lines = on_terminal(["groups", "describe", "billing"], columns=60, bootstrap=penstock.bootstrap)
    assert f"topic      {LONG}" in lines
    assert "committed  0" in lines


def test_into_a_pipe_nothing_is_cut(run: Run, penstock: Broker) -> None:
    name = "n" * 249
    penstock.topic(name)
    [row] = [
        line
        for line in run("topics list", bootstrap=penstock.bootstrap).lines
        if line.startswith(" nnn")
    ]
    found, partitions, replicas, topic_id = row.split()
    assert (found, partitions, replicas) == (name, "1", "1")
    assert len(topic_id) == 22


needs = st.lists(
    st.builds(ColumnNeed, width=st.integers(1, 300), may_shrink=st.booleans()), min_size=1
)


@given(needs=needs, available=st.integers(1, 400))
def test_widths_fit_and_stay_readable(needs: list[ColumnNeed], available: int) -> None:
    widths = fitted(needs, available)
    if widths is None:
        assert sum(min(n.width, READABLE) if n.may_shrink else n.width for n in needs) > available
        return
    assert sum(widths) <= available
    for need, width in zip(needs, widths, strict=True):
        assert width == need.width or (need.may_shrink and READABLE <= width < need.width)


def test_the_widest_column_gives_way_first_and_the_name_of_the_row_last() -> None:
    texts = [ColumnNeed(width=width, may_shrink=True) for width in (40, 30, 10, 60)]
    assert fitted(texts, 120) == [40, 30, 10, 40]
    assert fitted(texts, 100) == [40, 25, 10, 25]
    assert fitted(texts, 60) == [36, 8, 8, 8]
    endless = ColumnNeed(width=10**9, may_shrink=True)
    assert fitted([endless, endless], 40) == [32, 8]
