"""Builds the newest version of the view, takes it live, and switches readers to it."""

from dataclasses import replace

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.client.consume.compacted_topic import committed_ends
from penstock.client.network.cluster import Cluster
from penstock.model.error import PenstockError
from penstock.spark.config_file import connection_options
from penstock.spark.connection import connect, run
from penstock.spark.pipelines.place import Place
from penstock.spark.pipelines.replay import steps, views
from penstock.spark.pipelines.replay.checkpoint_progress import reached
from penstock.spark.pipelines.replay.pointer import Pointer, goes_forward
from penstock.spark.pipelines.streams import read_topics, write_topics

LEDGER = "replay.ledger"
POINTERS = "replay.views"
VIEW = "balances"
NEWEST = max(steps.VIEWS)

# As long as a round of building leaves more than this to do, another one follows.
BEHIND_MAX = 10_000
ROUNDS_MAX = 50
LOOK_SECONDS = 1
LOOKS_MAX = 600


class NotBuilt(PenstockError):
    """The view is not whole, so readers stay where they are."""


def start(spark: SparkSession, place: Place) -> list[StreamingQuery]:
    """Returns when readers read the newest version: after hours, where there are many events."""
    return start_version(spark, place, NEWEST)


def start_version(spark: SparkSession, place: Place, version: int) -> list[StreamingQuery]:
    wanted = pointer_to(version)
    if not goes_forward(live_pointer(place), wanted):
        return [query(spark, place, version)]
    built = build(spark, place, version)
    if place.once:
        point(place, wanted)
        return [built]
    live = query(spark, place, version)
    await_first_look(live)
    point(place, wanted)
    return [live]


def topic_of(version: int) -> str:
    return f"replay.{VIEW}.v{version}"


def pointer_to(version: int) -> Pointer:
    return Pointer(view=VIEW, version=version, topic=topic_of(version))


def query(spark: SparkSession, place: Place, version: int) -> StreamingQuery:
    """The view's one query: it reads from the first event, or from where its checkpoint is."""
    rows = steps.VIEWS[version](steps.ledger_events(read_topics(spark, place, LEDGER)))
    name = topic_of(version)
    return write_topics(steps.as_records(rows), place, query=name, topic=name, output_mode="update")


def build(spark: SparkSession, place: Place, version: int) -> StreamingQuery:
    """Takes in all there is, and what has come meanwhile, until little is left; the last round."""
    name = topic_of(version)
    for _ in range(ROUNDS_MAX):
        ends = ledger_ends(place)
        # It ends at the end of the ledger as it is when it starts, which is not before `ends`.
        building = query(spark, replace(place, once=True), version)
        building.awaitTermination()
        come = reached(spark, place.checkpoint(name))
        if views.behind(come, ends) > 0:
            raise NotBuilt(f"{name}: the build was stopped; start it again to continue")
        if views.behind(come, ledger_ends(place)) <= BEHIND_MAX:
            return building
    raise NotBuilt(f"{name}: events come faster than they are read, after {ROUNDS_MAX} rounds")


def await_first_look(live: StreamingQuery) -> None:
    """It has looked for events from where the building ended; an error in that is raised here."""
    for _ in range(LOOKS_MAX):
        if live.lastProgress is not None or live.status["message"].startswith("Waiting for"):
            return
        if live.awaitTermination(LOOK_SECONDS):
            break
    raise NotBuilt(f"{live.name}: it ended, or made no progress, before readers could be switched")


def live_pointer(place: Place) -> Pointer | None:
    async def work() -> Pointer | None:
        async with _cluster(place) as cluster:
            return await views.standing(cluster, POINTERS, VIEW)

    return run(work())


def point(place: Place, wanted: Pointer) -> Pointer:
    async def work() -> Pointer:
        async with _cluster(place) as cluster:
            return await views.switch(cluster, POINTERS, wanted)

    return run(work())


def ledger_ends(place: Place) -> views.Ends:
    async def work() -> views.Ends:
        async with _cluster(place) as cluster:
            return await committed_ends(cluster, LEDGER)

    return run(work())


def _cluster(place: Place) -> Cluster:
    return connect(connection_options(place.brokers))
