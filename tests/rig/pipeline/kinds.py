"""How a worker of each client library is started."""

import sys
from pathlib import Path

from rig.apache_kafka.java import compiled, java_command

JAVA_SOURCE = Path(__file__).resolve().parents[1] / "java" / "PipelineWorker.java"
JAVA_MAIN = "PipelineWorker"
PYTHON_WORKERS = {"confluent-kafka": "confluent_worker", "kafka-python": "kafka_python_worker"}


def python_worker(client: str) -> list[str]:
    return [sys.executable, "-m", f"rig.pipeline.{PYTHON_WORKERS[client]}"]


def java_worker(*, jars: Path, folder: Path) -> list[str]:
    """Compiles it into `folder`."""
    classes = compiled([JAVA_SOURCE], jars=jars, folder=folder)
    return [*java_command(jars, heap_mib=64, folder=folder, classes=classes), JAVA_MAIN]
