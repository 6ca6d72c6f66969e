"""A session is made for small machines, unless someone says otherwise."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import penstock.spark
from penstock.spark import web_ui
from penstock.spark.start import CONSOLE_PROGRESS
from rig.small_spark import SMALL_SPARK

SHOWN = """
import penstock.spark

spark = penstock.spark.session("mine")
shown = ["spark.master", "spark.sql.shuffle.partitions", "spark.app.name"]
print("SHOWN", *(spark.conf.get(name) for name in shown), sep="|")
epoch = spark.sql("select date_format(timestamp_seconds(0), 'HH:mm') as shown").first()
print("EPOCH", epoch.shown, sep="|")
"""
CONSOLE_PROGRESS_SHOWN = """
import penstock.spark

spark = penstock.spark.session()
print("SHOWN", spark.conf.get("spark.ui.showConsoleProgress"), sep="|")
"""
UI_SHOWN = """
import socket
import urllib.request

import psutil

import penstock.spark
from penstock.spark import web_ui

taken = socket.create_server(("127.0.0.1", web_ui.free_port()))
spark = penstock.spark.session()
url = spark.sparkContext.uiWebUrl
with urllib.request.urlopen(url + "/jobs/") as page:
    print("PAGE", page.status, sep="|")
port = int(url.rpartition(":")[2])
[java] = psutil.Process().children()
addresses = {one.laddr.ip for one in java.net_connections() if one.laddr.port == port}
print("AT", *(address.removeprefix("::ffff:") for address in addresses), sep="|")
print("FOUND", port != taken.getsockname()[1], sep="|")
"""


def test_a_second_session_is_the_first_with_what_was_told(spark: SparkSession) -> None:
    broadcast = "spark.sql.autoBroadcastJoinThreshold"
    before = spark.conf.get(broadcast)
    again = penstock.spark.session(settings={broadcast: "1000"})
    assert again is spark
    assert spark.conf.get(broadcast) == "1000"
    penstock.spark.session(settings={broadcast: "1001"}, **{broadcast: "1002"})
    assert spark.conf.get(broadcast) == "1002"
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"  # not our default over it
    spark.conf.set(broadcast, str(before))


@pytest.mark.parametrize(("told", "guess"), [("mastr", ": did you mean master?"), ("quux", "")])
def test_argument_that_is_no_setting_of_spark_is_refused(told: str, guess: str) -> None:
    with pytest.raises(TypeError) as refusal:
        penstock.spark.session(**{told: "local[2]"})
    assert str(refusal.value) == (
        f"session() has no argument {told}{guess}; settings of Spark have names such as"
        " spark.driver.memory"
    )


def test_it_listens_to_this_machine_alone(spark: SparkSession) -> None:
    settings = dict(spark.sparkContext.getConf().getAll())
    assert settings["spark.driver.bindAddress"] == "127.0.0.1"
    assert settings["spark.driver.host"] == "127.0.0.1"


def test_its_web_ui_is_shown_to_this_machine_alone_without_a_word_on_the_console(
    tmp_path: Path,
) -> None:
    """Also where the first port of Spark's UI is taken."""
    silent = ("spark.ui.enabled", "spark.log.level")
    settings = {name: value for name, value in SMALL_SPARK.items() if name not in silent}
    defaults = tmp_path / "spark-defaults.conf"
    defaults.write_text("".join(f"{name} {value}\n" for name, value in settings.items()), "utf-8")
    ended = subprocess.run(
        [sys.executable, "-c", UI_SHOWN],
        env={**without_local_ip(), "SPARK_CONF_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ended.returncode == 0, ended.stderr
    assert "PAGE|200" in ended.stdout
    assert "AT|127.0.0.1\n" in ended.stdout
    assert "FOUND|True" in ended.stdout
    assert "SparkUI" not in ended.stderr


def test_its_web_ui_can_be_turned_off(spark: SparkSession) -> None:
    assert SMALL_SPARK["spark.ui.enabled"] == "false"
    assert spark.sparkContext.uiWebUrl is None


def test_a_web_ui_whose_ports_are_all_taken_has_any_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as first, socket.create_server(("", 0)) as second:
        taken = [one.getsockname()[1] for one in (first, second)]
        monkeypatch.setattr(web_ui, "PORTS", taken)
        assert web_ui.free_port() == web_ui.ANY_PORT
        second.close()
        assert web_ui.free_port() == taken[1]


@pytest.mark.parametrize(
    ("told", "environment", "defaults", "expected"),
    [
        ({}, {}, None, True),
        ({}, {}, "spark.driver.memory 1g", True),
        ({"spark.master": "local[2]"}, {}, "spark.master spark://cluster:7077", True),
        ({"spark.master": "spark://cluster:7077"}, {}, None, False),
        ({}, {}, "spark.master=spark://cluster:7077", False),
        ({}, {"PYSPARK_SUBMIT_ARGS": "--master yarn pyspark-shell"}, None, False),
        ({}, {"PYSPARK_SUBMIT_ARGS": "--properties-file mine pyspark-shell"}, None, False),
        ({}, {"MASTER": "yarn"}, None, False),
    ],
)
def test_java_is_bound_to_this_machine_only_where_the_session_is_surely_local(
    tmp_path: Path,
    told: dict[str, str],
    environment: dict[str, str],
    defaults: str | None,
    expected: bool,
) -> None:
    """On a cluster the executors must reach the driver."""
    if defaults is not None:
        (tmp_path / "spark-defaults.conf").write_text(defaults, "utf-8")
    known = {"SPARK_CONF_DIR": str(tmp_path), **environment}
    assert web_ui.is_surely_local(told, known) is expected


@pytest.mark.parametrize(
    ("address", "expected"),
    [(None, False), ("127.0.0.1", True), ("::1", True), ("localhost", True), ("10.0.0.5", False)],
)
def test_the_web_ui_is_on_by_default_only_at_loopback(address: str | None, expected: bool) -> None:
    assert web_ui.is_loopback(address) is expected


def test_workers_run_the_same_python(spark: SparkSession) -> None:
    [told] = spark.sparkContext.parallelize([0], 1).map(lambda _: sys.executable).collect()
    assert told == sys.executable


def test_what_spark_submit_was_told_wins_and_else_times_are_universal(tmp_path: Path) -> None:
    program = tmp_path / "job.py"
    program.write_text(SHOWN, "utf-8")
    submit = Path(sys.executable).with_name("spark-submit")
    settings = SMALL_SPARK | {"spark.sql.shuffle.partitions": "3"}
    told = ["--master", "local[1]"]
    for name, value in settings.items():
        told += ["--conf", f"{name}={value}"]
    ended = subprocess.run(
        [str(submit), *told, str(program)],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "TZ": "Asia/Tokyo"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ended.returncode == 0, ended.stderr
    assert "SHOWN|local[1]|3|mine" in ended.stdout
    assert "EPOCH|00:00" in ended.stdout  # also where the machine's clock shows nine


@pytest.mark.parametrize(("told", "expected"), [(None, "false"), ("true", "true")])
def test_progress_is_shown_on_the_console_only_where_the_user_asks_for_it(
    tmp_path: Path, told: str | None, expected: str
) -> None:
    settings = SMALL_SPARK if told is None else {**SMALL_SPARK, CONSOLE_PROGRESS: told}
    defaults = tmp_path / "spark-defaults.conf"
    defaults.write_text("".join(f"{name} {value}\n" for name, value in settings.items()), "utf-8")
    ended = subprocess.run(
        [sys.executable, "-c", CONSOLE_PROGRESS_SHOWN],
        env={**os.environ, "SPARK_CONF_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ended.returncode == 0, ended.stderr
    assert f"SHOWN|{expected}" in ended.stdout


@pytest.mark.parametrize("name", ["session", "register", "batch_writer", "offsets_behind"])
def test_the_public_face_holds_what_is_documented(name: str) -> None:
    assert callable(getattr(penstock.spark, name))


def without_local_ip() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != web_ui.LOCAL_IP}
