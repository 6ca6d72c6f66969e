"""Each client of a pipeline gets into a node that asks for a log-in, and no password is shown."""

import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict
from pyspark.sql import SparkSession

from penstock.cli.pipeline_run import end_offsets
from penstock.model.identity import TopicPartition
from penstock.spark.config_file import connection_options
from penstock.spark.pipelines.cdc import job as cdc
from penstock.spark.pipelines.cdc.capture import capture_beside
from penstock.spark.pipelines.cdc.generate import feed
from penstock.spark.pipelines.place import Place
from penstock.spark.pipelines.replay import job as replay
from penstock.spark.pipelines.replay.generate import events
from penstock.spark.pipelines.wordcount.names import COUNTS, LINES
from rig.clients.confluent import ConfluentClient
from rig.ledger import folded, shown
from rig.logins.login import PATIENCE_SECONDS
from rig.logins.secured import Credentials, SecuredNode
from rig.numbered_rows import make_topics
from rig.pipeline_input import make_topics as make_topics_of
from rig.pipeline_input import send
from rig.shop_table import latest, products, source_of, told
from rig.sink_output import committed_records
from rig.small_spark import SHORT_LIVED_JAVA

pytestmark = pytest.mark.slow

SECONDS_MAX = 300
LINE_COUNT = 40
PASSWORD = "alice-secret"


@pytest.fixture(scope="module")
def credentials(tmp_path_factory: pytest.TempPathFactory) -> Credentials:
    return Credentials(tmp_path_factory.mktemp("credentials"))


@pytest.fixture(scope="module")
def secured(
    tmp_path_factory: pytest.TempPathFactory, credentials: Credentials
) -> Iterator[SecuredNode]:
    one = SecuredNode(tmp_path_factory.mktemp("node"), credentials)
    yield one
    one.stop()


@pytest.fixture
def config(credentials: Credentials, tmp_path: Path) -> Path:
    return credentials.by_sasl("SCRAM-SHA-512").write(tmp_path / "client.properties")


@pytest.fixture
def place(secured: SecuredNode, config: Path, tmp_path: Path) -> Place:
    return Place(
        bootstrap=secured.addresses["SASL_SSL"],
        folder=str(tmp_path / "pipeline"),
        config_file=str(config),
    )


def pipeline(*arguments: str, **environment: str) -> str:
    """All that `penstock pipeline ...` prints."""
    done = command("pipeline", *arguments, **environment)
    assert done.returncode == 0, done.stdout
    return done.stdout


def command(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(Path(sys.executable).with_name("penstock")), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
        env={**os.environ, "JAVA_TOOL_OPTIONS": SHORT_LIVED_JAVA, **environment},
    )


def test_a_pipeline_runs_over_tls_and_its_password_is_nowhere(
    secured: SecuredNode, config: Path, tmp_path: Path
) -> None:
    at = ("--bootstrap", secured.addresses["SASL_SSL"])
    pipeline(
        *("generate", "wordcount", "--count", str(LINE_COUNT), *at),
        *("--command-config", str(config)),
    )
    # What the web UI shows, and more, goes into the event log.
    events = tmp_path / "events"
    events.mkdir()
    defaults = tmp_path / "spark" / "spark-defaults.conf"
    defaults.parent.mkdir()
    defaults.write_text(
        f"spark.eventLog.enabled true\nspark.eventLog.dir {events.as_uri()}\n"
        "spark.eventLog.compress false\n"
    )
    folder = tmp_path / "pipeline"
    said = pipeline(
        *("run", "wordcount", "--once", "--json", "--master", "local[2,3]", *at),
        *("--folder", str(folder)),
        SPARK_CONF_DIR=str(defaults.parent),
        PENSTOCK_COMMAND_CONFIG=str(config),
    )
    assert committed_records(secured.addresses["PLAINTEXT"], COUNTS)
    assert PASSWORD not in said
    places = [*events.rglob("*"), *folder.rglob("*")]
    texts = {file: file.read_bytes() for file in places if file.is_file()}
    assert any(b"physicalPlanDescription" in text for text in texts.values()), "no plan was logged"
    assert [file for file, text in texts.items() if PASSWORD.encode() in text] == []


def test_the_lag_is_known_to_the_thread_that_shows_it(secured: SecuredNode, config: Path) -> None:
    partition = TopicPartition(LINES, 0)
    pipeline(
        *("generate", "wordcount", "--count", "1"),
        *("--bootstrap", secured.addresses["SASL_SSL"], "--command-config", str(config)),
    )
    found: list[dict[TopicPartition, int]] = []
    at = secured.addresses["SASL_SSL"]
    thread = threading.Thread(
        target=lambda: found.append(end_offsets(at, [partition], config=config))
    )
    thread.start()
    thread.join(SECONDS_MAX)
    assert [list(ends) for ends in found] == [[partition]]


def test_the_capture_of_cdc_logs_in(secured: SecuredNode, place: Place, postgres: str) -> None:
    inside = secured.addresses["PLAINTEXT"]
    topics = ("changes", "positions", "events")
    make_topics(inside, *topics, partitions=1)
    feed(postgres, 1, transactions_max=5)
    ended = threading.Event()
    thread = capture_beside(
        source_of(postgres, *topics),
        place.bootstrap,
        settings=dict(connection_options(place.brokers).kafka),
        goes_on=lambda: not ended.is_set(),
        ended=ended.set,
    )
    deadline = time.monotonic() + PATIENCE_SECONDS
    try:
        while told(committed_records(inside, "changes")) != products(postgres):
            assert time.monotonic() < deadline, "the rows were not captured"
            assert not ended.is_set(), "the capture has ended"
    finally:
        ended.set()
        thread.join(PATIENCE_SECONDS)


def test_the_commands_of_cdc_log_in(
    secured: SecuredNode, config: Path, tmp_path: Path, postgres: str
) -> None:
    prefix = f"cli-{conninfo_to_dict(postgres)['dbname']}"
    topic, index = f"{prefix}.public.products", str(tmp_path / "index")
    at = ("--bootstrap", secured.addresses["SASL_SSL"], "--command-config", str(config))
    capture = ("cdc", "capture", "--postgres", postgres, "--prefix", prefix, "--once")
    feed(postgres, 1, transactions_max=20)
    captured = command(*capture, "--table", "products", *at)
    assert captured.returncode == 0, captured.stdout
    rows = products(postgres)
    assert told(committed_records(secured.addresses["PLAINTEXT"], topic)) == rows
    indexed = command("cdc", "index", "--topic", topic, "--file", index, "--once", *at)
    assert indexed.returncode == 0, indexed.stdout
    with sqlite3.connect(index) as database:
        indexed_rows = database.execute("SELECT count(*) FROM rows WHERE row IS NOT NULL")
        assert indexed_rows.fetchone() == (len(rows),)


def test_a_command_of_cdc_that_may_not_log_in_says_so_in_one_line(
    secured: SecuredNode, credentials: Credentials, tmp_path: Path, postgres: str
) -> None:
    login = replace(credentials.by_sasl("SCRAM-SHA-512"), password="wrong-secret")
    config = login.write(tmp_path / "wrong.properties")
    at = ("--bootstrap", secured.addresses["SASL_SSL"], "--command-config", str(config))
    capture = ("cdc", "capture", "--postgres", postgres, "--table", "products", "--once")
    follow = ("cdc", "index", "--topic", "t", "--file", str(tmp_path / "index"))
    for arguments in (capture, follow):
        refused = command(*arguments, *at)
        assert refused.returncode == 1, refused.stdout
        [line] = refused.stdout.splitlines()
        assert "invalid credentials" in line
        assert "wrong-secret" not in line


def test_the_whole_of_cdc_logs_in(
    spark: SparkSession, secured: SecuredNode, place: Place, postgres: str
) -> None:
    inside = secured.addresses["PLAINTEXT"]
    make_topics_of(inside, "cdc")
    feed(postgres, 1, transactions_max=20)
    for query in cdc.start(spark, replace(place, postgres=postgres, once=True)):
        query.awaitTermination()
    rows = products(postgres)
    assert told(committed_records(inside, cdc.PRODUCTS)) == rows
    cached = latest(committed_records(inside, "cdc.cache"))
    assert cached == {f"product:{key}": row for key, row in rows.items()}


def test_the_whole_of_replay_logs_in(
    spark: SparkSession, secured: SecuredNode, place: Place
) -> None:
    inside = secured.addresses["PLAINTEXT"]
    make_topics_of(inside, "replay")
    happened = list(islice(events(31, accounts=5), 30))
    client = ConfluentClient(inside)
    send(client, happened)
    client.close()
    for query in replay.start(spark, replace(place, once=True)):
        query.awaitTermination()
    pointer = replay.live_pointer(place)
    assert pointer is not None and pointer.topic == replay.topic_of(replay.NEWEST)
    assert shown(committed_records(inside, pointer.topic)) == folded(happened)
