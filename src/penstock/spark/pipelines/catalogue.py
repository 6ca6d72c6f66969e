"""The pipelines by name. Nothing of them is loaded here: Spark is heavy, and a list needs none.

Each is a package beside this module; the command line loads its modules when one is used.
"""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    name: str
    summary: str
    inputs: tuple[str, ...]  # topics that its generator writes
    outputs: tuple[str, ...]  # topics and tables that it writes itself
    needs_postgres: bool = False  # it does not start without one
    events_per_day: int | None = None  # at least, in the story of its generator; None: no matter
    can_forget: bool = False  # a query of it takes `Place.forget_after_ms`

    @property
    def job_module(self) -> str:
        """Holds `start(spark, place) -> list[StreamingQuery]`."""
        return f"{__package__}.{self.name}.job"

    @property
    def generator_module(self) -> str:
        """Holds `events(seed) -> Iterator[Event]`."""
        return f"{__package__}.{self.name}.generate"

    @property
    def topology(self) -> Path:
        return Path(__file__).with_name(self.name) / "topology.toml"


_ALL: tuple[Pipeline, ...] = (
    Pipeline(
        name="wordcount",
        summary="lines of text to running counts of their words",
        inputs=("wordcount.lines",),
        outputs=("wordcount.counts",),
        can_forget=True,
    ),
    Pipeline(
        name="commerce",
        summary="orders, payments and inventory of a shop to views, revenue, stock and alerts",
        inputs=("commerce.orders", "commerce.payments", "commerce.inventory"),
        events_per_day=300_000,
        outputs=(
            "commerce.fulfilment",
            "commerce.analytics",
            "commerce.notifications",
            "commerce.ledger",
            "commerce.order-view",
            "commerce.revenue",
            "commerce.stock-levels",
            "commerce.stock-alerts",
            "commerce.dead-letters",
            "table commerce_stock, with --postgres",
        ),
    ),
    Pipeline(
        name="clickstream",
        summary="what people do in a shop to sessions, profiles, fraud alerts and an audit log",
        inputs=("clickstream.events",),
        events_per_day=70_000,
        can_forget=True,
        outputs=(
            "clickstream.sessions",
            "clickstream.profiles",
            "clickstream.alerts",
            "clickstream.dead-letters",
            "Delta table clickstream.audit",
        ),
    ),
    Pipeline(
        name="cdc",
        summary="changes of a PostgreSQL table to search index, cache, warehouse and features",
        inputs=(),
        outputs=(
            "cdc.products",
            "cdc.events",
            "cdc.search",
            "cdc.cache",
            "Delta table cdc.warehouse",
            "Delta table cdc.history",
            "table product_features",
        ),
        needs_postgres=True,
    ),
    Pipeline(
        name="replay",
        summary="a new view of an event store, built from its first event and then live",
        inputs=("replay.ledger",),
        outputs=("replay.balances.v2", "replay.views"),
    ),
)

PIPELINES = {pipeline.name: pipeline for pipeline in _ALL}
