"""`penstock alerts`: what fires now, by the topic into which nodes write their alerts."""

import asyncio
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import partial

import click

from penstock.alerts.machine import State
from penstock.alerts.report import CLUSTER_OWNER, Report
from penstock.alerts.rule import Scope, Severity
from penstock.cli import status
from penstock.cli.alert_figures import figure_text, seconds_text
from penstock.cli.connect import until_interrupted, with_cluster
from penstock.cli.options import cluster_options
from penstock.cli.show import print_json, print_table, say
from penstock.cli.watch import interval_option
from penstock.client.admin.alert_evaluation import (
    ALERTS_ENABLE,
    Evaluated,
    brokers_to_ask,
    evaluated,
    switched_off,
)
from penstock.client.admin.alert_reports import read_reports
from penstock.client.admin.alert_topic import SETTING, alert_topic
from penstock.client.network.cluster import Cluster
from penstock.client.network.errors import ClientError, Refused
from penstock.model.error import ErrorCode, PenstockError
from penstock.model.lazy_dataclass import dataclass

FIRST = (Severity.CRITICAL, Severity.WARNING)


class NoTopic(PenstockError):
    """Nodes tell their alerts in their logs, or by a webhook, alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A report, and whether somebody evaluates its alert still."""

    report: Report
    evaluated: Evaluated


Found = dict[bytes, Told]


@click.command()
@click.option(
    "--topic",
    metavar="NAME",
    help="Where nodes write their alerts; else what their penstock.alerts.topic says.",
)
@click.option("--all", "with_cleared", is_flag=True, help="Show alerts that have cleared, too.")
@click.option(
    "--watch", is_flag=True, help="Then print a line for each alert that fires or clears."
)
@interval_option
@cluster_options
def alerts(
    topic: str | None,
    with_cleared: bool,
    watch: bool,
    seconds: float,
    bootstrap: str,
    as_json: bool,
) -> None:
    """Show the alerts that fire now, and what to do about them.

    Nodes evaluate alerts that were started with penstock.alerts.enable=true.
    """
    work = partial(
        _show,
        topic=topic,
        with_cleared=with_cleared,
        as_json=as_json,
        seconds=seconds if watch else None,
    )
    if not with_cluster(bootstrap, work):
        sys.exit(status.INTERRUPTED)


async def _show(
    cluster: Cluster, *, topic: str | None, with_cleared: bool, as_json: bool, seconds: float | None
) -> bool:
    """False when Ctrl-C ended it. `seconds` between two looks; None: there is one."""
    topic = topic or await _topic_of(cluster)
    found = await _read(cluster, topic)
    wanted = [
        one for one in (found or {}).values() if with_cleared or one.report.state is State.FIRING
    ]
    wanted.sort(key=_order)
    if as_json and seconds is None:
        print_json([_value(one) for one in wanted])
    elif as_json:
        for one in wanted:
            _print_line(one)
    elif found is None:
        say(f"topic {topic} does not exist: no alert has fired, or no node evaluates them")
    elif not wanted:
        say("nothing fires")
    else:
        _print(wanted, topic=topic, now_ms=cluster.clock.now_ms())
    if seconds is None:
        return True
    watching = _watch(cluster, topic, found or {}, as_json=as_json, seconds=seconds)
    return await until_interrupted(watching)


async def _topic_of(cluster: Cluster) -> str:
    """By the settings of the first broker that tells them."""
    brokers = (await cluster.refresh(())).brokers
    failure: ClientError = ClientError("there is no broker")
    for node in sorted(brokers):
        try:
            topic = await alert_topic(cluster, node)
        except ClientError as error:
            failure = error
            continue
        if topic is None:
            raise NoTopic(f"broker {node} writes its alerts into no topic: {SETTING} is empty")
        return topic
    raise failure


async def _read(cluster: Cluster, topic: str) -> Found | None:
    """None where the topic does not exist."""
    try:
        reports = await read_reports(cluster, topic)
    except Refused as refusal:
        if refusal.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return None
        raise
    await cluster.refresh([topic])
    brokers = cluster.view.brokers
    off = await switched_off(cluster, brokers_to_ask(reports.values(), brokers))
    return {
        key: Told(report=one, evaluated=evaluated(one, brokers=brokers, off=off))
        for key, one in reports.items()
    }


async def _watch(
    cluster: Cluster, topic: str, known: Found, *, as_json: bool, seconds: float
) -> None:
    while True:
        await asyncio.sleep(seconds)
        try:
            found = await _read(cluster, topic) or {}
        except ClientError as error:
            say(f"the cluster is away: {error}", err=True)
            continue
        for key, one in found.items():
            before = known.get(key)
            if before is None or before.report != one.report:
                _print_line(one) if as_json else say(_line(one.report))
        known = found


def _order(one: Told) -> tuple[int, int, str, str]:
    report = one.report
    return (FIRST.index(report.severity), report.at_ms, report.alert, report.subject)


def _print(found: Iterable[Told], *, topic: str, now_ms: int) -> None:
    found = list(found)
    print_table(
        ("severity", "alert", "at", "about", "value", "state", "for"),
        (
            (
                one.report.severity.value,
                one.report.alert,
                _place(one),
                one.report.subject or None,
                figure_text(one.report),
                one.report.state.value,
                seconds_text(max(now_ms - one.report.at_ms, 0) / 1000),
            )
            for one in found
        ),
        wrapped=("alert", "about"),
    )
    for alert, action in {
        one.report.alert: one.report.action for one in found if one.report.state is State.FIRING
    }.items():
        say(f"{alert}: {action}")
    if any(one.evaluated is Evaluated.AWAY for one in found):
        say("away: that node does not run, so nobody tells whether it is so still")
    if any(one.evaluated is Evaluated.OFF for one in found):
        say(
            f"off: {ALERTS_ENABLE} is false there, so nobody tells whether it is so still; if no"
            f" node evaluates alerts any more, delete topic {topic}"
        )


def _place(one: Told) -> str:
    is_of_cluster, now = one.report.scope is Scope.CLUSTER, one.evaluated
    is_marked = now is Evaluated.OFF or (now is Evaluated.AWAY and not is_of_cluster)
    owner = CLUSTER_OWNER if is_of_cluster else f"node {one.report.node}"
    return f"{owner} ({now.value})" if is_marked else owner


def _line(report: Report) -> str:
    at = datetime.fromtimestamp(report.at_ms / 1000, UTC)
    about = f" {report.subject}" if report.subject else ""
    figure = figure_text(report)
    return (
        f"{at:%Y-%m-%dT%H:%M:%SZ} {report.state.value} {report.severity.value} {report.alert}"
        f" {report.owner}{about}{'' if figure is None else f' {figure}'}"
    )


def _print_line(one: Told) -> None:
    print_json(_value(one), in_line=True)


def _value(one: Told) -> dict[str, object]:
    return {
        **one.report.value_for_json(),
        "is_away": one.evaluated is Evaluated.AWAY,
        "is_off": one.evaluated is Evaluated.OFF,
    }
