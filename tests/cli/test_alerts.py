"""`penstock alerts` shows what fires, on its table and its JSON, whatever stands in the topic."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from confluent_kafka import Producer

from penstock.alerts.machine import State, Transition
from penstock.alerts.report import Report, report_of
from penstock.alerts.rules import CERTIFICATE_EXPIRES, DISK_FILLING, GROUP_LAG, OFFLINE_PARTITIONS
from penstock.cli.status import INTERRUPTED
from penstock.model.identity import NodeId
from penstock.testing import Broker
from rig.apache_kafka.broker import ApacheKafka
from rig.cluster_questions import until
from rig.command import Outcome
from rig.live_terminal import LiveTerminal
from rig.terminal import on_terminal

Run = Callable[..., Outcome]

TOPIC = "__penstock_alerts"
HOSTILE = "bil\x1b[2Jling\x9b\n"
NODE, GONE = NodeId(1), NodeId(77)
LAG = report_of(
    Transition(rule=GROUP_LAG, subject=f"{HOSTILE} orders", state=State.FIRING, value=3_700),
    node_id=NODE,
    is_broker=True,
    now_ms=1_700_000_000_000,
)
OFFLINE = report_of(
    Transition(rule=OFFLINE_PARTITIONS, subject="", state=State.FIRING, value=2),
    node_id=NODE,
    is_broker=True,
    now_ms=1_700_000_100_000,
)
DISK = report_of(
    Transition(rule=DISK_FILLING, subject="/data", state=State.FIRING, value=0.91),
    node_id=GONE,
    is_broker=True,
    now_ms=1_700_000_200_000,
)


def tell(broker: Broker, *reports: Report, topic: str = TOPIC) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for report in reports:
        producer.produce(topic, report.body, key=report.key)
    assert producer.flush(60) == 0


@pytest.fixture
def firing(penstock: Broker) -> Broker:
    penstock.topic(TOPIC)
    producer = Producer({"bootstrap.servers": penstock.bootstrap})
    for value in (b"\xff\x1b[2J", b"[]", None):
        producer.produce(TOPIC, value, key=b"no report")
    assert producer.flush(60) == 0
    tell(penstock, DISK, LAG, OFFLINE)
    return penstock


def test_what_fires_is_shown_the_worst_first_with_what_to_do(run: Run, firing: Broker) -> None:
    shown = run("alerts", bootstrap=firing.bootstrap).text
    rows = [line.split() for line in shown.splitlines() if " Penstock" in line]
    assert [row[:2] for row in rows] == [
        ["critical", "PenstockOfflinePartitions"],
        ["warning", "PenstockGroupLagSeconds"],
        ["warning", "PenstockDiskFilling"],
    ]
    assert "1h 1m" in shown
    assert "91%" in shown
    assert "node 77 (away)" in shown
    assert f"PenstockOfflinePartitions: {OFFLINE.action}" in shown


def test_an_expired_certificate_has_less_than_nothing_left(run: Run, firing: Broker) -> None:
    for value, shown in ((-90_000.0, "-1d 1h"), (59.4, "59s")):
        told = Transition(rule=CERTIFICATE_EXPIRES, subject="SSL", state=State.FIRING, value=value)
        tell(firing, report_of(told, node_id=NODE, is_broker=True, now_ms=1_700_000_300_000))
        assert f" {shown} " in run("alerts", bootstrap=firing.bootstrap).text


def test_json_has_all_of_a_report(run: Run, firing: Broker) -> None:
    told = run("alerts --json", bootstrap=firing.bootstrap).json()
    assert [one["alert"] for one in told] == [OFFLINE.alert, LAG.alert, DISK.alert]
    assert told[1] == {**LAG.value_for_json(), "is_away": False, "is_off": True}
    assert (told[2]["is_away"], told[2]["is_off"]) == (True, False)


def test_alerts_that_no_node_evaluates_any_more_are_marked(run: Run, firing: Broker) -> None:
    shown = run("alerts", bootstrap=firing.bootstrap)
    for place in ("cluster (off)", "node 1 (off)", "node 77 (away)"):
        assert place in shown.text
    assert shown.lines[-1] == (
        "off: penstock.alerts.enable is false there, so nobody tells whether it is so still; if no"
        f" node evaluates alerts any more, delete topic {TOPIC}"
    )
    tell(firing, *(replace(one, state=State.CLEARED) for one in (LAG, OFFLINE)))
    assert "(off)" not in run("alerts --all", bootstrap=firing.bootstrap).text


@pytest.mark.penstock(
    settings={"penstock.alerts.enable": True, "penstock.alerts.interval.ms": 3_600_000}
)
def test_alerts_that_are_evaluated_are_not_marked(run: Run, firing: Broker) -> None:
    assert "off" not in run("alerts", bootstrap=firing.bootstrap).text
    told = run("alerts --json", bootstrap=firing.bootstrap).json()
    assert [one["is_off"] for one in told] == [False, False, False]


def test_what_has_cleared_is_shown_only_when_asked_for(run: Run, firing: Broker) -> None:
    cleared = replace(LAG, state=State.CLEARED, value=0.0)
    tell(firing, cleared)
    told = run("alerts --json", bootstrap=firing.bootstrap).json()
    assert [one["alert"] for one in told] == [OFFLINE.alert, DISK.alert]
    told = run("alerts --json --all", bootstrap=firing.bootstrap).json()
    assert {one["alert"]: one["state"] for one in told}[LAG.alert] == "cleared"
    tell(firing, replace(OFFLINE, state=State.CLEARED), replace(DISK, state=State.CLEARED))
    assert run("alerts", bootstrap=firing.bootstrap).text == "nothing fires\n"


def test_a_hostile_subject_is_one_harmless_cell(run: Run, firing: Broker) -> None:
    for options in ("", "--json", "--all"):
        shown = run(f"alerts {options}", bootstrap=firing.bootstrap).text
        assert "\x1b" not in shown
        assert "\x9b" not in shown
    assert "bil\\x1b[2Jling\\x9b\\n orders" in run("alerts", bootstrap=firing.bootstrap).text


@pytest.mark.parametrize("columns", [60, 80])
def test_it_is_as_wide_as_the_terminal_at_most(columns: int, firing: Broker) -> None:
    lines = on_terminal(["alerts"], columns=columns, bootstrap=firing.bootstrap)
    advice = [one for one in lines if one.startswith(("Penstock", "away", "off"))]
    assert len(lines) > 3
    assert max(len(one) for one in lines if one not in advice) <= columns


def test_a_record_without_a_value_removes_its_alert(run: Run, firing: Broker) -> None:
    producer = Producer({"bootstrap.servers": firing.bootstrap})
    producer.produce(TOPIC, None, key=LAG.key)
    assert producer.flush(60) == 0
    told = run("alerts --json --all", bootstrap=firing.bootstrap).json()
    assert [one["alert"] for one in told] == [OFFLINE.alert, DISK.alert]


def test_records_of_an_aborted_transaction_are_not_believed(run: Run, firing: Broker) -> None:
    producer = Producer({"bootstrap.servers": firing.bootstrap, "transactional.id": "made-up"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(TOPIC, replace(LAG, subject="made up").body, key=b"made up")
    assert producer.flush(60) == 0
    producer.abort_transaction()
    told = run("alerts --json", bootstrap=firing.bootstrap).json()
    assert [one["subject"] for one in told] == ["", LAG.subject, "/data"]


def test_without_a_topic_it_says_so(run: Run, penstock: Broker) -> None:
    assert "does not exist" in run("alerts", bootstrap=penstock.bootstrap).text
    assert run("alerts --json", bootstrap=penstock.bootstrap).json() == []


def test_watching_prints_what_fires_and_clears_until_it_is_interrupted(firing: Broker) -> None:
    words = ["alerts", "--watch", "--interval", "0.1", "--bootstrap", firing.bootstrap]
    with LiveTerminal(words, columns=120) as terminal:
        until("what fires is shown", lambda: b"PenstockDiskFilling:" in terminal.received)
        tell(firing, replace(OFFLINE, state=State.CLEARED, value=0.0))
        wanted = b"cleared critical PenstockOfflinePartitions cluster 0"
        until("its end is shown", lambda: wanted in terminal.received)
        terminal.press(b"\x03")
        assert terminal.process.wait(60) == INTERRUPTED


@pytest.mark.penstock(settings={"penstock.alerts.topic": "pages"})
def test_the_topic_is_the_one_that_nodes_write_to(run: Run, penstock: Broker) -> None:
    assert "topic pages does not exist" in run("alerts", bootstrap=penstock.bootstrap).text
    penstock.topic("pages")
    tell(penstock, OFFLINE, topic="pages")
    [told] = run("alerts --json").json()
    assert told["alert"] == OFFLINE.alert
    assert run(f"alerts --topic {TOPIC} --json").json() == []


@pytest.mark.penstock(settings={"penstock.alerts.topic": ""})
def test_nodes_that_write_no_topic_are_named(run: Run, penstock: Broker) -> None:
    outcome = run("alerts", bootstrap=penstock.bootstrap)
    assert (outcome.status, outcome.text) == (1, "")
    assert outcome.err == (
        "penstock: broker 1 writes its alerts into no topic: penstock.alerts.topic is empty\n"
    )


def test_brokers_of_apache_kafka_evaluate_no_alerts_and_it_says_so(
    run: Run, apache_kafka: ApacheKafka
) -> None:
    outcome = run("alerts", bootstrap=apache_kafka.bootstrap)
    assert (outcome.status, outcome.text) == (1, "")
    assert "only nodes of Penstock evaluate alerts" in outcome.err
