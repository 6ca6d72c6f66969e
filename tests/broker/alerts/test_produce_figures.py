"""Errors and times of produce requests are those of the last minutes, as Prometheus would say."""

import pytest

from penstock.alerts.machine import Alerts, Snapshot
from penstock.alerts.quantile import quantile_at_least
from penstock.alerts.rule import Scope
from penstock.alerts.rules import PRODUCE_ERRORS, PRODUCE_SLOW
from penstock.alerts.window import READINGS_PER_WINDOW
from penstock.broker.alerts.produce_figures import ProduceFigures
from penstock.broker.metrics.requests import TOTAL_TIME, request_metrics
from penstock.broker.request.request_stats import RequestStats, TimedRequest
from penstock.metrics.family import BUCKET
from penstock.model.error import ErrorCode
from penstock.wire.api import ApiKey

WINDOW_MS = 300_000
LATER_MS = WINDOW_MS // READINGS_PER_WINDOW + 1  # so that both readings are kept


class Watched:
    """The requests of a node, and what an alert sees of them."""

    def __init__(self) -> None:
        self.stats = RequestStats()
        self.failed_reports = 0
        self._figures = ProduceFigures(
            self.stats,
            failed_reports=lambda: self.failed_reports,
            window_ms=WINDOW_MS,
            now_ms=0,
        )

    def answer(self, count: int, *, api: ApiKey = ApiKey.PRODUCE, took_ms: int = 1) -> None:
        self.stats.counts[api].answered += count
        for _ in range(count):
            timed = TimedRequest(api, received_us=0, started_us=0)
            self.stats.note_sent(timed, took_ms * 1000)

    def refuse(self, code: ErrorCode, *, api: ApiKey = ApiKey.PRODUCE) -> None:
        self.answer(1, api=api)
        self.stats.note_error(api, code)

    def look(self, now_ms: int) -> tuple[dict[str, float | None], dict[str, float | None]]:
        found = self._figures.look(now_ms=now_ms)
        return found[PRODUCE_ERRORS.name], found[PRODUCE_SLOW.name]


def test_each_other_error_counts_whoever_is_to_blame() -> None:
    watched = Watched()
    watched.answer(197)
    watched.refuse(ErrorCode.MESSAGE_TOO_LARGE)
    watched.refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    watched.refuse(ErrorCode.REQUEST_TIMED_OUT)
    assert watched.look(LATER_MS)[0] == {"": 3 / 200}


def test_refusals_of_authorization_do_not_count() -> None:
    watched = Watched()
    watched.answer(96)
    watched.refuse(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    watched.refuse(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    watched.refuse(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    assert watched.look(LATER_MS)[0] == {"": 0}
    watched.refuse(ErrorCode.REQUEST_TIMED_OUT)
    assert watched.look(2 * LATER_MS)[0] == {"": 1 / 100}


def test_requests_of_other_apis_do_not_count() -> None:
    watched = Watched()
    watched.answer(10)
    watched.refuse(ErrorCode.OFFSET_OUT_OF_RANGE, api=ApiKey.FETCH)
    watched.answer(1_000, api=ApiKey.FETCH, took_ms=5_000)
    errors, slow = watched.look(LATER_MS)
    assert errors == {"": 0}
    assert slow[""] is not None
    assert slow[""] < 5


def test_what_is_older_than_the_window_does_not_count() -> None:
    watched = Watched()
    watched.answer(9, took_ms=4_000)
    watched.refuse(ErrorCode.REQUEST_TIMED_OUT)
    errors, slow = watched.look(LATER_MS)
    assert errors == {"": 0.1}
    assert slow[""] is not None
    assert slow[""] == 2_097.152
    watched.answer(5, took_ms=20)
    errors, slow = watched.look(LATER_MS + WINDOW_MS)
    assert errors == {"": 0}
    assert slow[""] is not None
    assert slow[""] == 16.384


def test_without_requests_there_are_no_errors_and_no_time() -> None:
    watched = Watched()
    assert watched.look(0) == ({"": 0}, {})
    watched.answer(5)
    watched.look(LATER_MS)
    assert watched.look(LATER_MS + WINDOW_MS) == ({"": 0}, {})


def test_an_error_that_comes_later_than_its_request_is_one() -> None:
    watched = Watched()
    watched.answer(1)
    watched.look(LATER_MS)
    watched.look(LATER_MS + WINDOW_MS)
    watched.stats.note_error(ApiKey.PRODUCE, ErrorCode.REQUEST_TIMED_OUT)
    assert watched.look(2 * LATER_MS + WINDOW_MS)[0] == {"": 1}


def test_the_time_is_read_off_the_buckets_that_metrics_tell() -> None:
    watched = Watched()
    for took_ms in (1, 3, 40, 90, 700, 2_500):
        watched.answer(30, took_ms=took_ms)
    buckets = [
        one
        for one in request_metrics(watched.stats).samples()
        if one is not None and one.family is TOTAL_TIME and one.suffix == BUCKET
    ]
    wanted = quantile_at_least(
        0.99,
        bounds=[float(one.labels[1]) for one in buckets[:-1]],
        counts=[int(one.value) for one in buckets],
    )
    assert buckets[-1].labels == ("Produce", "+Inf")
    assert watched.look(LATER_MS)[1] == {"": wanted}


@pytest.mark.parametrize(("took_ms", "fires"), [(540, False), (1_000, False), (1_050, True)])
@pytest.mark.parametrize("count", [1, 99, 1_000])
def test_requests_within_the_threshold_are_not_slow(count: int, took_ms: int, fires: bool) -> None:
    watched = Watched()
    watched.answer(count, took_ms=took_ms)
    slowest_ms = watched.look(LATER_MS)[1][""]
    assert slowest_ms is not None
    assert PRODUCE_SLOW.is_beyond(slowest_ms) == fires


@pytest.mark.parametrize("interval_ms", [100, 999, 5_000, 9_375, 10_000, 11_000])
def test_one_failed_request_on_an_idle_node_is_no_alert(interval_ms: int) -> None:
    watched = Watched()
    alerts = Alerts([PRODUCE_ERRORS], tracked_max=1)
    told = []
    for now_ms in range(0, 3 * WINDOW_MS, interval_ms):
        if len(watched.stats.errors) == 0 and now_ms > WINDOW_MS // 3:
            watched.refuse(ErrorCode.REQUEST_TIMED_OUT)
        figures = {PRODUCE_ERRORS.name: watched.look(now_ms)[0]}
        snapshot = Snapshot(now_ms=now_ms, scopes=frozenset(Scope), figures=figures)
        told += alerts.evaluate(snapshot)
    assert told == []


def test_reports_of_alerts_that_failed_do_not_count() -> None:
    watched = Watched()
    watched.answer(1)
    watched.refuse(ErrorCode.MESSAGE_TOO_LARGE)
    for _ in range(8):
        watched.refuse(ErrorCode.NOT_ENOUGH_REPLICAS)
    watched.failed_reports = 8
    assert watched.look(LATER_MS)[0] == {"": 0.5}
    for _ in range(3):  # the topic was deleted and made anew
        watched.refuse(ErrorCode.NOT_ENOUGH_REPLICAS)
    watched.failed_reports = 3
    assert watched.look(LATER_MS + WINDOW_MS)[0] == {"": 0}
