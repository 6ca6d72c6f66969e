"""`penstock top` against three nodes: figures, a terminal of its own, nodes that die."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from penstock.alerts.machine import State, Transition
from penstock.alerts.report import report_of
from penstock.alerts.rules import DISK_FILLING
from penstock.cli.top_rows import NodeState, Picture, picture_of
from penstock.client.admin.cluster_sample import Sampler
from penstock.client.network.cluster import Cluster
from penstock.model.identity import NodeId
from penstock.model.settings.alerts import ALERTS_TOPIC
from penstock.testing import Broker
from rig.authorised_node import authorised_node
from rig.client_cluster import run_with_cluster
from rig.command import Outcome
from rig.live_terminal import LiveTerminal
from rig.served_cluster import ServedCluster

Run = Callable[..., Outcome]

RECORD_BYTES = 1_000


def write(broker: Broker, topic: str, *, count: int) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for index in range(count):
        producer.produce(topic, os.urandom(RECORD_BYTES), partition=index % 3)
    assert producer.flush(60) == 0


def commit(broker: Broker, group: str, topic: str, offsets: list[int]) -> None:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group})
    places = [TopicPartition(topic, index, offset) for index, offset in enumerate(offsets)]
    consumer.commit(offsets=places, asynchronous=False)
    consumer.close()


def live(broker: Broker, *, columns: int = 100, lines: int = 50) -> LiveTerminal:
    words = ["top", "--interval", "0.2", "--bootstrap", broker.bootstrap]
    return LiveTerminal(words, columns=columns, lines=lines)


def states(lines: list[str]) -> list[str]:
    """Of the nodes, in a picture."""
    start = lines.index("nodes") + 2 if "nodes" in lines else len(lines)
    rows = [line.strip() for line in lines[start : start + 3]]
    return ["no answer" if row.endswith("no answer") else row.split()[-1] for row in rows if row]


def all_up(lines: list[str]) -> bool:
    return states(lines) == ["up"] * 3 and "no problems" in lines


@pytest.mark.penstock(nodes=3)
def test_rates_sizes_and_lag_are_those_of_what_clients_did(penstock: Broker) -> None:
    orders = penstock.topic("orders", partitions=3)
    write(penstock, orders, count=30)
    commit(penstock, "billing", orders, [1, 2, 10])

    async def work(cluster: Cluster) -> Picture:
        sampler = Sampler(cluster)
        first = await sampler.take()
        write(penstock, orders, count=600)
        return picture_of(first, await sampler.take())

    picture = run_with_cluster(penstock.bootstrap, work)
    row = picture.topics[0]
    assert (row.name, row.partitions) == (orders, 3)
    assert row.records_per_second * picture.seconds == pytest.approx(600)
    written_bytes = row.bytes_per_second * picture.seconds
    assert 600 * RECORD_BYTES < written_bytes < 1.1 * 600 * RECORD_BYTES
    assert 630 * RECORD_BYTES < row.size_bytes < 1.1 * 630 * RECORD_BYTES
    [group] = picture.groups
    assert (group.group_id, group.members, group.lag) == ("billing", 0, 630 - 13)
    assert [one.state for one in picture.nodes] == [NodeState.UP] * 3
    assert sum(one.leaders for one in picture.nodes) == 4  # with that of committed offsets
    assert [one.replicas for one in picture.nodes] == [4, 4, 4]
    assert all(one.log_bytes >= row.size_bytes for one in picture.nodes)
    assert [one.node_id for one in picture.nodes if one.is_controller] == [
        penstock.active_controller()
    ]
    assert picture.problems == ()
    assert picture.unknown == ()


@pytest.mark.penstock(nodes=3)
def test_a_group_with_members_and_a_node_that_was_killed_are_told(
    run: Run, penstock: Broker
) -> None:
    orders = penstock.topic("orders", partitions=3)
    write(penstock, orders, count=9)
    consumer = Consumer(
        {
            "bootstrap.servers": penstock.bootstrap,
            "group.id": "shipping",
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([orders])
    for _ in range(9):
        assert consumer.poll(60) is not None
    consumer.commit(asynchronous=False)
    command = "top --once --interval 0.2 --format json"
    told = run(command, bootstrap=penstock.bootstrap).json()
    [group] = told["groups"]
    assert group == {
        "group": "shipping",
        "type": "consumer",
        "state": "Stable",
        "members": 1,
        "lag": 0,
    }
    assert told["problems"] == []
    consumer.close()
    penstock.kill(next(node for node in (1, 2, 3) if node != told["controller"]))
    told = run(command).json()
    [killed] = [one for one in told["nodes"] if one["state"] != "up"]
    assert (killed["leaders"], killed["replicas"], killed["log_bytes"]) == (0, 4, None)
    problems = {(one["problem"], one["about"]) for one in told["problems"]}
    assert ("node", f"node {killed['id']}") in problems
    assert {("under-replicated", f"{orders}-{index}") for index in range(3)} <= problems


def tell(broker: Broker, state: State, topic: str = ALERTS_TOPIC) -> None:
    told = Transition(rule=DISK_FILLING, subject="/data", state=state, value=0.9)
    report = report_of(told, node_id=NodeId(1), is_broker=True, now_ms=1_700_000_000_000)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce(topic, report.body, key=report.key)
    assert producer.flush(60) == 0


@pytest.mark.penstock(settings={"penstock.alerts.topic": "pages"})
def test_alerts_are_read_from_the_topic_that_nodes_write_to(run: Run, penstock: Broker) -> None:
    for topic in ("pages", ALERTS_TOPIC):
        penstock.topic(topic)
    command = "top --interval 0.1 --json"
    tell(penstock, State.FIRING, ALERTS_TOPIC)
    assert run(command, bootstrap=penstock.bootstrap).json()["problems"] == []
    tell(penstock, State.FIRING, "pages")
    [problem] = run(command).json()["problems"]
    assert (problem["problem"], problem["about"]) == ("alert", "PenstockDiskFilling")


def test_alerts_are_problems_while_they_fire(penstock: Broker) -> None:
    """The same command shows that they begin and end, so their topic is read again."""
    with live(penstock) as terminal:
        terminal.until("nothing fires", lambda lines: "no problems" in lines)
        penstock.topic(ALERTS_TOPIC)
        tell(penstock, State.FIRING)
        row = "alert    PenstockDiskFilling  warning, node 1 (off), /data, 90%"
        terminal.until("it fires", lambda lines: "1 alert" in lines and row in lines)
        tell(penstock, State.CLEARED)
        terminal.until("it has cleared", lambda lines: "no problems" in lines)


def test_into_a_pipe_it_prints_one_picture(run: Run, penstock: Broker) -> None:
    name = "n" * 200
    penstock.topic(name)
    outcome = run("top --interval 0.1", bootstrap=penstock.bootstrap)
    assert outcome.status == 0
    assert "\x1b" not in outcome.text
    assert any(line.startswith(name) for line in outcome.lines)
    assert "no problems" in outcome.lines


def test_so_many_topics_are_shown_as_were_asked_for(run: Run, penstock: Broker) -> None:
    for name in ("a", "b", "c"):
        penstock.topic(name)
    told = run("top --interval 0.1 --top 2 --json", bootstrap=penstock.bootstrap).json()
    assert [one["topic"] for one in told["topics"]] == ["a", "b"]
    assert told["totals"]["topics"] == 3
    assert "topics (2 of 3)" in run("top --interval 0.1 --top 2").lines


def test_a_cluster_that_is_not_there_is_one_line(run: Run) -> None:
    outcome = run("top --bootstrap 127.0.0.1:1")
    assert outcome.status == 1
    assert outcome.err.count("\n") == 1
    assert "cannot connect to 127.0.0.1:1" in outcome.err


def test_what_a_user_may_not_see_is_said_and_is_not_zero(run: Run, tmp_path: Path) -> None:
    with authorised_node(tmp_path / "data", super_users="User:admin") as guarded:
        bootstrap = guarded.node.bootstrap
        told = run("top --interval 0.1 --json", bootstrap=bootstrap).json()
        shown = run("top --interval 0.1", bootstrap=bootstrap)
    assert (told["controller"], told["nodes"][0]["log_bytes"]) == (None, None)
    assert told["unknown"] == [
        "active controller: __cluster_metadata: Cluster authorization failed.",
        "broker 1: log directories: CLUSTER_AUTHORIZATION_FAILED",
    ]
    assert "no problems in what is known" in shown.lines
    assert f"not known: {told['unknown'][1]}" in shown.lines


def test_a_node_that_stands_still_costs_its_own_figures_alone(run: Run, tmp_path: Path) -> None:
    with ServedCluster(tmp_path / "cluster") as cluster:
        cluster.start()
        command = "top --once --interval 0.1 --json"
        before = run(command, bootstrap=cluster.bootstrap).json()
        still = next(node for node in (1, 2, 3) if node != before["controller"])
        os.kill(cluster.nodes[still].pid, signal.SIGSTOP)
        told = run(command, bootstrap=cluster.bootstrap).json()
        os.kill(cluster.nodes[still].pid, signal.SIGCONT)
    states = {one["id"]: one["state"] for one in told["nodes"]}
    assert states.pop(still) in ("no answer", "fenced")
    assert set(states.values()) == {"up"}
    [problem] = [one for one in told["problems"] if one["problem"] == "node"]
    assert problem["about"] == f"node {still}"


@pytest.mark.penstock(nodes=3)
def test_the_view_goes_on_when_a_node_and_then_all_die_and_q_ends_it(penstock: Broker) -> None:
    orders = penstock.topic("orders", partitions=3)
    with live(penstock) as terminal:
        terminal.until("all nodes are up", all_up)
        penstock.kill(2)
        seen = terminal.until("it is missed", lambda lines: states(lines) == ["up", "fenced", "up"])
        assert any(line.startswith("1 node away, 3 under-replicated") for line in seen)
        assert any(f"{orders}-0" in line and "missing 2" in line for line in seen)
        penstock.start(2)
        terminal.until("it is back", all_up)
        penstock.kill()
        seen = terminal.until(
            "the cluster is missed",
            lambda lines: any(line.startswith("the cluster is away since") for line in lines),
        )
        assert states(seen) != []  # what was seen last stays
        penstock.start()
        terminal.until(
            "all are back",
            lambda lines: all_up(lines) and not any("is away" in line for line in lines),
        )
        write(penstock, orders, count=30)
        terminal.until("its size is seen", lambda lines: any("kB" in line for line in lines))
        terminal.press(b"q")
        assert terminal.end() == 0


def test_ctrl_c_ends_it(penstock: Broker) -> None:
    with live(penstock) as terminal:
        terminal.until("something is seen", lambda lines: "no problems" in lines)
        terminal.press(b"x")  # any other key does nothing
        terminal.press(b"\x03")
        assert terminal.end() == 130
        assert b"Traceback" not in terminal.received


def test_the_terminal_is_given_back_to_whoever_asks_it_to_end(penstock: Broker) -> None:
    with live(penstock) as terminal:
        terminal.until("something is seen", lambda lines: "no problems" in lines)
        terminal.process.send_signal(signal.SIGTERM)
        assert terminal.end() == 0


def test_it_fits_terminals_of_any_size_and_follows_a_new_one(penstock: Broker) -> None:
    for index in range(30):
        penstock.topic(f"a-topic-with-a-name-that-is-longer-than-some-{index}")
    with live(penstock, columns=60, lines=24) as terminal:
        seen = terminal.until("it is drawn", lambda lines: "no problems" in lines)
        assert max(map(len, seen)) <= 60
        assert len(seen) <= 24
        assert any(line.startswith("topics (") for line in seen)
        terminal.resize(columns=120, lines=60)
        seen = terminal.until("it is larger", lambda lines: len(lines) > 24)
        assert any("longer-than-some-1" in line for line in seen)
        terminal.resize(columns=60, lines=12)
        terminal.until(
            "it is small",
            lambda lines: (
                len(lines) <= 12 and "no problems" in lines and max(map(len, lines)) <= 60
            ),
        )
        terminal.press(b"q")
        assert terminal.end() == 0
