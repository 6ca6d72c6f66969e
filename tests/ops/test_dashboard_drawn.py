"""Every panel of the dashboard has data after a small load, and is drawn."""

import math
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from draw_dashboard import JOB, drawn, panels, scraped
from promql_values import NotUnderstood, Scrape, evaluate
from rig.held_port import HeldPort
from rig.ops_files import OPS, dashboard
from rig.scraping import url_in
from rig.served_cluster import ServedCluster
from rig.tls_files import TlsFiles

WAIT_SECONDS = 120
SCRAPES_MIN = 8
SVG = "{http://www.w3.org/2000/svg}"
Settings = dict[str, str | int | float | bool]


class Load:
    """Clients that read and write, one that is behind, one with an open transaction, and one whose
    requests are refused.
    """

    def __init__(self, client: Settings) -> None:
        self._admin = AdminClient(client)
        topics = [
            NewTopic("orders", 3, 3),
            NewTopic("prices", 1, 3, config={"cleanup.policy": "compact"}),
        ]
        for made in self._admin.create_topics(topics).values():
            made.result(WAIT_SECONDS)
        self._producer = Producer(client)
        reads: Settings = {**client, "group.id": "billing", "auto.offset.reset": "earliest"}
        self._reader = Consumer(reads)
        self._reader.subscribe(["orders"])
        self._till = Producer({**client, "transactional.id": "till"})
        self._till.init_transactions(WAIT_SECONDS)
        self._till.begin_transaction()
        self._till.produce("orders", b"v")
        assert self._till.flush(WAIT_SECONDS) == 0

    def work(self) -> None:
        for topic in ("orders", "prices"):
            for number in range(50):
                self._producer.produce(topic, b"v" * 100, key=b"%d" % (number % 5))
        assert self._producer.flush(WAIT_SECONDS) == 0
        self._reader.consume(10, timeout=0.2)
        with pytest.raises(KafkaException):
            self._admin.delete_topics(["nothing"])["nothing"].result(WAIT_SECONDS)

    def end(self) -> None:
        self._reader.close()
        self._till.abort_transaction(WAIT_SECONDS)


def without_data(scrapes: list[Scrape]) -> list[str]:
    """Expressions of which the last scrape shows nothing."""
    return [
        f"{panel['title']}: {target['expr']}"
        for panel in dashboard()["panels"]
        for target in panel.get("targets", ())
        if not values(target["expr"].replace("$job", JOB), scrapes)
    ]


def values(text: str, scrapes: list[Scrape]) -> list[float]:
    found = evaluate(text, scrapes, interval_s=60).values()
    return [value for value in found if not math.isnan(value)]


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> list[Scrape]:
    """Of three nodes with TLS, until every panel has data."""
    folder = tmp_path_factory.mktemp("drawn")
    files = TlsFiles(folder / "tls")
    protocols = {"listener.security.protocol.map": "PLAINTEXT:SSL,CONTROLLER:SSL"}
    scrapes: list[Scrape] = []
    with ServedCluster(
        folder / "data",
        changed=protocols | files.node_settings(),
        penstock_metrics_address="0",
        offsets_topic_num_partitions="3",
        log_cleaner_backoff_ms="100",
    ) as cluster:
        cluster.start()
        urls = [url_in(node.logged()) for node in cluster.nodes.values()]
        load = Load(
            {
                "bootstrap.servers": cluster.bootstrap,
                "security.protocol": "SSL",
                "ssl.ca.location": str(files.trusted),
            }
        )
        deadline = time.monotonic() + WAIT_SECONDS
        while len(scrapes) < SCRAPES_MIN or without_data(scrapes):
            assert time.monotonic() < deadline, without_data(scrapes)
            load.work()
            scrapes.append(scraped(urls, at_s=time.time()))
        load.end()
    return scrapes


def test_every_panel_has_data_after_a_small_load(history: list[Scrape]) -> None:
    every = panels(dashboard(), history)
    assert len(every) > 50
    assert [one.title for one in every if one.kind != "row" and not one.series] == []


def test_figures_are_those_of_the_cluster(history: list[Scrape]) -> None:
    told = {one.title: one for one in panels(dashboard(), history)}
    for title, value in (("Nodes that answer", 3), ("Voters", 3), ("Active controllers", 1)):
        [series] = told[title].series
        assert series.points[-1][1] == value
    assert {one.legend for one in told["Members"].series} == {"billing"}
    [open_for] = told["The oldest one"].series
    ages = [age for _, age in open_for.points]
    assert ages == sorted(ages)
    assert ages[-1] > 0


def test_the_dashboard_is_drawn(history: list[Scrape], tmp_path: Path) -> None:
    every = panels(dashboard(), history)
    picture = tmp_path / "dashboard.svg"
    picture.write_text(drawn(every), "utf-8")
    texts = [one.text for one in ElementTree.parse(picture).iter(f"{SVG}text")]
    assert {one.title for one in every} <= set(texts)
    assert "no data" not in texts


def test_it_is_drawn_of_the_nodes_that_are_named() -> None:
    nobody = HeldPort()
    script = OPS / "grafana" / "draw_dashboard.py"
    command = [sys.executable, str(script), "--for", "0", f"http://{nobody.address}/metrics"]
    outcome = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    texts = [one.text for one in ElementTree.fromstring(outcome.stdout).iter()]
    assert texts[texts.index("Nodes that answer") + 1] == "0"


def test_a_panel_without_data_says_so() -> None:
    empty = [Scrape(at_s=1.0, samples={})]
    texts = [one.text for one in ElementTree.fromstring(drawn(panels(dashboard(), empty))).iter()]
    assert texts.count("no data") > 40


def scrape(at_s: float, *samples: tuple[str, str, float]) -> Scrape:
    """Samples are names, labels such as `a=1 b=2`, and values."""
    told: dict[str, dict[frozenset[tuple[str, str]], float]] = {}
    for name, labels, value in samples:
        pairs = frozenset((one.split("=")[0], one.split("=")[1]) for one in labels.split())
        told.setdefault(name, {})[pairs] = value
    return Scrape(at_s=at_s, samples=told)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('sum(a{x="1"})', 13),
        ('sum(a{x!="1"})', 5),
        ("max(a)", 10),
        ("sum by (x) (a)", 13),
        ("1 - a / b", -9),
        ("max(rate(c[1m]))", 0.7),  # it began anew: 9 and 5 in 20 s
        ("topk(1, a)", 10),
        ("clamp_min(b - 3, 0)", 0),
        ("clamp_min(a, 4)", 10),
        ("time() - min(b)", 19),
        ("histogram_quantile(0.5, h_bucket)", 1.5),
        ("max(a) - 1 - on () group_right () b", 8),
    ],
)
def test_expressions_have_the_values_that_prometheus_gives_them(text: str, value: float) -> None:
    scrapes = [
        scrape(0, ("c", "", 10)),
        scrape(10, ("c", "", 19)),
        scrape(
            20,
            ("a", "x=1 y=1", 10),
            ("a", "x=1 y=2", 3),
            ("a", "x=2 y=2", 5),
            ("b", "x=1 y=1", 1),
            ("c", "", 5),
            ("h_bucket", "le=1", 2),
            ("h_bucket", "le=2", 6),
            ("h_bucket", "le=+Inf", 8),
        ),
    ]
    found = evaluate(text, scrapes, interval_s=60)
    assert max(found.values()) == pytest.approx(value)


@pytest.mark.parametrize(
    "text", ["sum(a", "a) + 1", "rates(a[5m])", "sum without (x) (a)", "a > 1"]
)
def test_what_is_not_understood_is_refused(text: str) -> None:
    with pytest.raises(NotUnderstood):
        evaluate(text, [scrape(0)], interval_s=60)
