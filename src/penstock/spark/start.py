"""`session()`: a Spark session that is ready to read and to write topics.

By default it runs on this machine, with settings for a small one. Settings take precedence in this
order: arguments, spark-submit, Spark's file of defaults, the defaults of this module. An active
session is used as it is.
"""

import difflib
import os
import subprocess
import sys
from collections.abc import Mapping

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from penstock.spark.java import java_home
from penstock.spark.registration import register
from penstock.spark.web_ui import java_on_loopback, ui_settings

# For all masters: a program computes the same wherever it runs.
SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # State of queries lies on disk and not in the heap, all stores of a process share one bound of
    # memory (500 MB by Spark's default), and a batch writes what has changed. A query that has a
    # checkpoint keeps the state store that it began with.
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.boundedMemoryUsage": "true",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}
# Spark sets it to true itself, when the program is in Python and starts the JVM: as for a shell.
CONSOLE_PROGRESS = "spark.ui.showConsoleProgress"
# On one machine: no other machine connects to it, and hundreds of tiny tasks only cost time. Those
# of the web UI are in web_ui.
LOCAL_SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    CONSOLE_PROGRESS: "false",
    "spark.sql.shuffle.partitions": "4",
}
LOCAL = "local[*]"
CONNECT, REMOTE = "sc://", "spark.remote"
JAVA_END_SECONDS_MAX = 30
ARGUMENTS = ("app_name", "master", "settings")


def session(
    app_name: str = "penstock",
    *,
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
    **more: str,
) -> SparkSession:
    """A session with the format "penstock"; on this machine, unless a master is given, which may
    be a server of Spark Connect: `session(master="sc://HOST:15002")`.

    `settings` are Spark's, by their full names: `session(settings={"spark.driver.memory": "2g"})`.
    They may be given as arguments too, which take precedence: `session(**settings)`.
    JavaMissing if no Java is found that Spark can run on, TypeError for an argument that is not a
    setting of Spark.
    """
    _refuse_misspelt(more)
    given = {**(settings or {}), **more}
    told = {"spark.app.name": app_name, **given}
    if master is not None:
        told[REMOTE if master.startswith(CONNECT) else "spark.master"] = master
    if REMOTE in told or "SPARK_REMOTE" in os.environ:
        spark = _asked(told).getOrCreate()  # the server has its own settings and Java
    elif SparkSession.getActiveSession() is not None:
        spark = _asked(given).getOrCreate()
    else:
        spark = _asked(_all_settings(told)).getOrCreate()
    register(spark)
    return spark


def end_java() -> None:
    """Ends the Java that sessions of this process ran on, if they started one, and waits for it.

    By itself it ends some time after this process, and may still have something to write.
    """
    gateway = SparkContext._gateway
    process = None if gateway is None else getattr(gateway, "proc", None)
    if gateway is None or process is None:
        return
    SparkContext._gateway = SparkContext._jvm = None
    gateway.shutdown()
    process.stdin.close()  # which is how PySpark tells it to end
    try:
        process.wait(JAVA_END_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _refuse_misspelt(more: Mapping[str, str]) -> None:
    """Spark would keep a setting that nobody knows, and say nothing."""
    for name in more:
        if "." not in name:
            close = difflib.get_close_matches(name, ARGUMENTS, n=1)
            guess = f": did you mean {close[0]}?" if close else ""
            raise TypeError(
                f"session() has no argument {name}{guess}; settings of Spark have names such as"
                " spark.driver.memory"
            )


def _asked(settings: dict[str, str]) -> SparkSession.Builder:
    builder = SparkSession.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder


def _all_settings(told: dict[str, str]) -> dict[str, str]:
    """The given settings, and the defaults above that are not set in Spark's JVM."""
    # Workers must run this Python, with the packages that are installed for it.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    started_by_submit = "PYSPARK_GATEWAY_PORT" in os.environ
    if not started_by_submit and SparkContext._gateway is None:
        home = java_home(os.environ)
        if home is not None:
            os.environ["JAVA_HOME"] = str(home)
    # The JVM is started first, with the given settings: only then it has read Spark's files.
    with java_on_loopback(told):
        SparkContext._ensure_initialized(conf=SparkConf().setAll(list(told.items())))
    known = dict(SparkConf().getAll()) | told
    if CONSOLE_PROGRESS not in told and not started_by_submit and not _user_set_console_progress():
        known.pop(CONSOLE_PROGRESS, None)
    master = known.get("spark.master", LOCAL)
    defaults = {"spark.master": master} | SETTINGS
    if master.startswith("local"):
        defaults |= LOCAL_SETTINGS | ui_settings()
    return {name: value for name, value in defaults.items() if name not in known} | told


def _user_set_console_progress() -> bool:
    """Whether it is set in the arguments of Spark's JVM or in Spark's file of defaults."""
    if CONSOLE_PROGRESS in os.environ.get("PYSPARK_SUBMIT_ARGS", ""):
        return True
    jvm = SparkContext._jvm
    assert jvm is not None, "it has been started"
    files = jvm.org.apache.spark.util.Utils
    environment = getattr(files, "getDefaultPropertiesFile$default$1")()  # Scala's default argument
    path = files.getDefaultPropertiesFile(environment)
    return path is not None and bool(files.getPropertiesFromFile(path).contains(CONSOLE_PROGRESS))
