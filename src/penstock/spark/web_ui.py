"""Spark's web UI, reachable from this machine alone.

Spark serves its UI at the address in the environment variable SPARK_LOCAL_IP of its JVM, and at all
addresses of the machine without it; it has no setting for that. So the variable is set for a JVM
that is started for a local session. The UI is on by default only where the JVM has a loopback
address in it: one that spark-submit started without the variable would show the UI to the network.

When a port is taken Spark warns on the console and tries the next one, 16 times, and then fails. So
a free port is looked up here; if another program takes it in between, Spark does as it always does.
"""

import ipaddress
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from pyspark import SparkContext
from pyspark.find_spark_home import _find_spark_home

LOCAL_IP = "SPARK_LOCAL_IP"
LOOPBACK = "127.0.0.1"
PORTS = range(4040, 4056)  # those that Spark itself tries
ANY_PORT = 0


@contextmanager
def java_on_loopback(told: Mapping[str, str]) -> Iterator[None]:
    """A JVM that is started meanwhile serves its UI on loopback, if its session is local."""
    if LOCAL_IP in os.environ or not is_surely_local(told, os.environ):
        yield
        return
    os.environ[LOCAL_IP] = LOOPBACK
    try:
        yield
    finally:
        del os.environ[LOCAL_IP]


def ui_settings() -> dict[str, str]:
    """The defaults for a local session, once its JVM has been started."""
    jvm = SparkContext._jvm
    assert jvm is not None, "it has been started"
    if not is_loopback(jvm.System.getenv(LOCAL_IP)):
        return {"spark.ui.enabled": "false"}
    return {"spark.ui.enabled": "true", "spark.ui.port": str(free_port())}


def is_surely_local(told: Mapping[str, str], environment: Mapping[str, str]) -> bool:
    """Whether the master is this machine, by what is known before the JVM reads Spark's files. A
    file or an argument that may name another master leaves it open.
    """
    if "spark.master" in told:
        return told["spark.master"].startswith("local")
    arguments = environment.get("PYSPARK_SUBMIT_ARGS", "")
    if "MASTER" in environment or "master" in arguments or "--properties-file" in arguments:
        return False
    folder = environment.get("SPARK_CONF_DIR") or Path(_find_spark_home(), "conf")
    defaults = Path(folder, "spark-defaults.conf")
    if Path(folder, "spark-env.sh").exists():
        return False
    return not defaults.exists() or "spark.master" not in defaults.read_text("utf-8", "replace")


def is_loopback(address: str | None) -> bool:
    try:
        return address == "localhost" or ipaddress.ip_address(address or "").is_loopback
    except ValueError:
        return False


def free_port() -> int:
    """The first port of the UI's that nobody listens on; any other if all are taken."""
    return next((port for port in PORTS if _is_free(port)), ANY_PORT)


def _is_free(port: int) -> bool:
    with closing(socket.socket()) as tried:
        # As Spark's server does: connections that have ended do not count.
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind((LOOPBACK, port))
        except OSError:
            return False
    return True
