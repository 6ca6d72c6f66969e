"""Alerts that nobody evaluates any more are known by who told them and who runs."""

import pytest

from penstock.alerts.machine import State, Transition
from penstock.alerts.report import Report, report_of
from penstock.alerts.rule import Rule
from penstock.alerts.rules import DISK_FILLING, OFFLINE_PARTITIONS
from penstock.client.admin.alert_evaluation import Evaluated, evaluated
from penstock.model.identity import NodeId

BROKERS = (NodeId(1), NodeId(2))
NOBODY: tuple[NodeId, ...] = ()
GONE = NodeId(3)


def told(rule: Rule, *, by: NodeId, state: State = State.FIRING) -> Report:
    transition = Transition(rule=rule, subject="", state=state, value=1)
    return report_of(transition, node_id=by, is_broker=True, now_ms=1_700_000_000_000)


@pytest.mark.parametrize("by", [NodeId(1), GONE])
def test_alert_of_the_cluster_is_off_where_no_broker_evaluates_alerts(by: NodeId) -> None:
    """Also if the node that told it is gone."""
    report = told(OFFLINE_PARTITIONS, by=by)
    assert evaluated(report, brokers=BROKERS, off=BROKERS) is Evaluated.OFF
    found = evaluated(report, brokers=BROKERS, off=BROKERS[:1])
    assert found is (Evaluated.AWAY if by == GONE else Evaluated.YES)
    cleared = told(OFFLINE_PARTITIONS, by=by, state=State.CLEARED)
    assert evaluated(cleared, brokers=BROKERS, off=BROKERS) is not Evaluated.OFF


def test_alert_of_a_node_is_off_by_its_own_word_alone() -> None:
    report = told(DISK_FILLING, by=NodeId(1))
    assert evaluated(report, brokers=BROKERS, off=BROKERS[:1]) is Evaluated.OFF
    assert evaluated(report, brokers=BROKERS, off=BROKERS[1:]) is Evaluated.YES
    gone = told(DISK_FILLING, by=GONE)
    assert evaluated(gone, brokers=BROKERS, off=BROKERS) is Evaluated.AWAY


def test_where_no_broker_is_known_the_node_is_away() -> None:
    report = told(OFFLINE_PARTITIONS, by=GONE)
    assert evaluated(report, brokers=NOBODY, off=NOBODY) is Evaluated.AWAY
