"""Two pipelines whole: what goes into them, and whether all that comes out of them is right."""

import json
import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator
from itertools import islice
from typing import Any, Protocol

import psycopg
from deltalake import DeltaTable

from penstock.spark.pipelines.cdc import job as cdc
from penstock.spark.pipelines.cdc.generate import feed as change_products
from penstock.spark.pipelines.cdc.steps import CACHE, SEARCH
from penstock.spark.pipelines.clickstream import job as clickstream
from penstock.spark.pipelines.clickstream.generate import Act, acts
from penstock.spark.pipelines.place import Place
from rig.clickstream import closed_sessions, dead_letters, planted_frauds
from rig.pipeline_input import make_topics
from rig.shop_table import place_in_log, products
from rig.sink_output import committed_records
from rig.stateful.feeding import committed, feed
from rig.stateful.profiles import Profiles, profile_of
from rig.stateful.truth import Record, Verdict, compare, compare_by_key


class WholePipeline(Protocol):
    @property
    def sinks(self) -> tuple[str, ...]:
        """Those that write to topics."""

    def prepare(self) -> None: ...

    def feed(self) -> None:
        """One batch more."""

    def judge(self) -> Verdict: ...


class Clickstream:
    sinks: tuple[str, ...] = (clickstream.SESSIONS, clickstream.PROFILES, clickstream.ALERTS)

    def __init__(self, place: Place, *, seed: int, events_per_batch: int) -> None:
        self._place = place
        self._size = events_per_batch
        self._acts = acts(seed)
        self._made: list[Act] = []
        self._profiles = Profiles()

    def prepare(self) -> None:
        make_topics(self._place.bootstrap, "clickstream")

    def feed(self) -> None:
        some = list(islice(self._acts, self._size))
        self._made += some
        self._profiles.take(some)
        feed(self._place.bootstrap, (act.event for act in some))

    def judge(self) -> Verdict:
        made = self._made
        profiles = self._profiles.truth.judge(
            Record(key or b"", profile_of(value or b""))
            for key, value in committed(self._place.bootstrap, clickstream.PROFILES)
        )
        sessions = compare(closed_sessions(made), map(_session, self._told(clickstream.SESSIONS)))
        alerts = compare(
            planted_frauds(made).elements(),
            ((told["rule"], told["subject"]) for told in self._told(clickstream.ALERTS)),
        )
        letters = compare(
            dead_letters(made),
            (value for _, value in committed(self._place.bootstrap, clickstream.DEAD_LETTERS)),
        )
        table = DeltaTable(self._place.table(clickstream.AUDIT))
        audit = table.to_pyarrow_table(columns=["value"])
        audited = compare((act.event.value for act in made), audit["value"].to_pylist())
        return profiles + sessions + alerts + letters + audited

    def _told(self, topic: str) -> Iterator[dict[str, Any]]:
        for _, value in committed(self._place.bootstrap, topic):
            yield json.loads(value or b"")


class Cdc:
    sinks: tuple[str, ...] = (cdc.SERVING,)

    def __init__(self, place: Place, *, seed: int, transactions_per_batch: int) -> None:
        self._place = place
        self._seed = seed
        self._size = transactions_per_batch

    def prepare(self) -> None:
        make_topics(self._place.bootstrap, "cdc")

    def feed(self) -> None:
        self._seed += 1
        change_products(self._place.database(), self._seed, transactions_max=self._size)

    def judge(self) -> Verdict:
        """By the changes as the topic has them, which are right if the table follows from them."""
        changes = committed_records(self._place.bootstrap, cdc.PRODUCTS)
        changes.sort(key=place_in_log)
        rows = {one.key or b"": _row(one.value) for one in changes}
        living = {key: row for key, row in rows.items() if row is not None}
        table = products(self._place.database()).values()
        captured = compare(map(_text, table), map(_text, living.values()))
        serving = self._serving((one.key or b"", _row(one.value)) for one in changes)
        warehouse = DeltaTable(self._place.table(cdc.WAREHOUSE)).to_pyarrow_table()
        stored = warehouse.drop_columns(["changed_at"]).to_pylist()
        history = DeltaTable(self._place.table(cdc.HISTORY)).to_pyarrow_table().to_pylist()
        past = compare(
            map(place_in_log, changes), ((row["position"], row["step"]) for row in history)
        )
        prices: dict[bytes, list[dict[str, Any]]] = defaultdict(list)
        times: dict[bytes, int] = defaultdict(int)
        for one in changes:
            times[one.key or b""] += 1
            if (row := _row(one.value)) is not None:
                prices[one.key or b""].append(row)
        features = (_features(int(key), times[key], prices[key]) for key in living)
        return (
            captured
            + serving
            + compare(map(_text, table), map(_text, stored))
            + past
            + compare(features, self._stored_features())
        )

    def _serving(self, changes: Iterable[tuple[bytes, dict[str, Any] | None]]) -> Verdict:
        told = list(changes)
        search = (Record(key, row and _text(_document(row))) for key, row in told)
        cache = (Record(b"product:" + key, row and _text(row)) for key, row in told)
        return compare_by_key(search, self._found(SEARCH)) + compare_by_key(
            cache, self._found(CACHE)
        )

    def _found(self, topic: str) -> Iterator[Record]:
        for key, value in committed(self._place.bootstrap, topic):
            row = _row(value)
            yield Record(key or b"", row and _text(row))

    def _stored_features(self) -> list[tuple[Any, ...]]:
        with psycopg.connect(self._place.database()) as connection:
            return connection.execute(
                "SELECT id, change_count, price_cents_min, price_cents_max, price_cents_mean,"
                f" price_cents_last, sold_out_count FROM {cdc.FEATURE_TABLE}"
            ).fetchall()


def _session(told: dict[str, Any]) -> Hashable:
    names = ("user_id", "started_at_ms", "ended_at_ms", "events", "revenue_cents")
    return tuple(told[name] for name in names)


def _row(value: bytes | None) -> dict[str, Any] | None:
    """None: a tombstone."""
    if value is None:
        return None
    row: dict[str, Any] = json.loads(value)
    return row


def _text(row: dict[str, Any]) -> str:
    return json.dumps(row, sort_keys=True)


def _document(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": row["id"],
        "text": f"{row['name']} {row['description']}",
        "category": row["category"],
        "available": row["stock"] > 0,
        "price_band": row["price_cents"] // 1000,
    }


def _features(product: int, changes: int, rows: list[dict[str, Any]]) -> tuple[int, ...]:
    cents = [row["price_cents"] for row in rows]
    mean = math.floor(sum(cents) / len(cents) + 0.5)
    sold_out = sum(row["stock"] == 0 for row in rows)
    return product, changes, min(cents), max(cents), mean, cents[-1], sold_out
