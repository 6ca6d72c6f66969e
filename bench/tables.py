"""Exactly once into tables: rows and MB a second, with and without kills.

    python bench/tables.py                        Delta in a folder and in S3, PostgreSQL: 500 MB
                                                  of 1 KB values each, and again with 4 kills
    python bench/tables.py --into s3 --kills 12   one of them
    python bench/tables.py --dsn 'host=...'       a PostgreSQL of yours; its connections are ended
    python bench/tables.py --quick                1 MB and 2 kills, to see that it works

A query reads a topic of a node and writes it by foreachBatch, in a driver program of its own. What
is killed, in turn: the driver with its JVM and workers, and whatever holds the table. The server of
S3 (SeaweedFS) is killed when parts of an upload are there and the upload is not done, where the
files are large enough for parts, and started again on its data. Of PostgreSQL the process that
writes is killed, after which the server itself ends all others and recovers from its log.

Without kills the time is that of the query; with kills it is all the time from the start of the
first query to the end of the last, in which every killed driver starts a new JVM. Afterwards the
table is compared with the topic, by places and hashes of values. Status 1 unless it has every row,
once and as it was. A line below those of PostgreSQL says whether it ran with fsync: the one from
the wheel does not.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

# The node, the store and the database are the tests' own.
sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

import psycopg
from compare import machine
from confluent_kafka import KafkaError, Message, Producer
from deltalake import DeltaTable
from spark_topics import QUIET, WAIT_SECONDS, create
from tables_query import KEYS, PG_TABLE, POSTGRES, Carried

from penstock.spark.tables.packaged_postgres import PackagedPostgres
from penstock.spark.tables.store_options import store_options
from rig.broker import NO_RETENTION_ROUND
from rig.object_store import ObjectStore
from rig.serve import ServedNode
from rig.spark_driving import session_pids
from rig.spark_path import python_path
from rig.table_contents import Digest, Found, Place, compared, digest_of

FOLDER, S3 = "folder", "s3"
KINDS = (FOLDER, S3, POSTGRES)
PARTITIONS = 4
Expected = dict[Place, Digest]  # the values of the topic
MB = 1e6
ROWS_AT_ONCE = 2_000  # of PostgreSQL, when they are compared
DURABILITY = ("fsync", "synchronous_commit")  # settings of PostgreSQL
LOOK_SECONDS = 0.02
DOWN_SECONDS_MAX = 1.5
MOMENT_SECONDS_MAX = 5.0  # so long the moment for a kill is waited for
WITHOUT_PROGRESS_SECONDS_MAX = 300.0
TOPIC = "rows"
NODE_SETTINGS = {**NO_RETENTION_ROUND, "auto.create.topics.enable": "false"}
MAKE_CARRIED = f"""
    CREATE TABLE {PG_TABLE} (
        from_partition int, from_offset bigint, value bytea,
        PRIMARY KEY (from_partition, from_offset)
    );
    CREATE TABLE rewritten (from_partition int, from_offset bigint);
    CREATE FUNCTION note_rewritten() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO rewritten VALUES (NEW.from_partition, NEW.from_offset);
        RETURN NULL;
    END $$;
    CREATE TRIGGER noted AFTER UPDATE ON {PG_TABLE}
        FOR EACH ROW EXECUTE FUNCTION note_rewritten();
"""
WRITER = """
    SELECT pid FROM pg_stat_activity
    WHERE application_name = 'penstock' AND backend_xid IS NOT NULL
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    rows: int
    value_bytes: int
    rows_at_once: int
    kills: int
    seed: int
    master: str

    @property
    def megabytes(self) -> float:
        return self.rows * self.value_bytes / MB


@dataclass(slots=True, kw_only=True)
class Course:
    """What happened while a table was written."""

    seconds: float = 0.0
    driver_kills: int = 0
    holder_kills: int = 0  # of the server that holds the table
    in_mid_write: int = 0  # of these, when it was being written to
    ended_by_themselves: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One to be written to."""

    into: str
    target: str
    storage_options: dict[str, str]
    found: Callable[[Expected], Found]
    kill_holder: Callable[[random.Random], bool] | None  # returns whether it was written to
    settings: Callable[[], dict[str, str]] = dict  # that the figures depend on


def main() -> None:
    chosen = parsed()
    plan = Plan(
        rows=max(1, round(chosen.megabytes * MB / chosen.value_bytes)),
        value_bytes=chosen.value_bytes,
        rows_at_once=chosen.rows_at_once,
        kills=chosen.kills,
        seed=chosen.seed,
        master=chosen.master,
    )
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, lambda number, _: sys.exit(128 + number))
    faults = 0
    with tempfile.TemporaryDirectory(prefix="penstock-tables-") as name:
        folder = Path(name)
        node = ServedNode(data=folder / "node", settings=NODE_SETTINGS)
        node.start()
        try:
            expected = fill(node.bootstrap, plan)
            print(
                f"{plan.rows:,} rows of {plan.value_bytes:,} B, {plan.rows_at_once:,} a batch, "
                f"{plan.master}; {machine()}\n"
            )
            print(HEADING, flush=True)
            for into in chosen.into.split(","):
                for kills in (0, plan.kills) if plan.kills else (0,):
                    place = folder / f"{into}-{kills}"
                    place.mkdir()
                    with opened(into, place, dsn=chosen.dsn) as table:
                        course = carry(table, plan, kills, node.bootstrap, place)
                        found, settings = table.found(expected), table.settings()
                    faults += found.faults
                    show(into, plan, course, found, settings)
                    keep(chosen.output, into, plan, kills, course, found, settings)
        finally:
            node.stop()
    print(f"\nverdict: {'NOT ' if faults else ''}exactly once (seed {plan.seed})")
    sys.exit(1 if faults else 0)


def fill(bootstrap: str, plan: Plan) -> Expected:
    """The topic, with values that do not shrink. Returns where each of them lies."""
    expected: Expected = {}

    def delivered(error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        value = message.value()
        assert value is not None
        expected[message.partition(), message.offset()] = digest_of(value)

    create(bootstrap, TOPIC, PARTITIONS)
    settings = {"linger.ms": 20, "batch.size": 65536, "queue.buffering.max.kbytes": 65536}
    producer = Producer({"bootstrap.servers": bootstrap, **settings, **QUIET})
    noise = random.Random(plan.seed)
    for number in range(plan.rows):
        value = noise.randbytes(plan.value_bytes)
        while True:
            try:
                producer.produce(TOPIC, value, partition=number % PARTITIONS, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.05)
        producer.poll(0)
    assert producer.flush(WAIT_SECONDS) == 0
    assert len(expected) == plan.rows
    return expected


def carry(table: Table, plan: Plan, kills: int, bootstrap: str, place: Path) -> Course:
    """Drivers, one after the other, until one came to the end of the rows."""
    dice = random.Random(plan.seed)
    carried = Carried(
        into=table.into,
        bootstrap=bootstrap,
        topic=TOPIC,
        target=table.target,
        checkpoint=str(place / "checkpoint"),
        rows_at_once=plan.rows_at_once,
        master=plan.master,
        spark_folder=str(place / "spark"),
        storage_options=table.storage_options,
    )
    batches = -(-plan.rows // plan.rows_at_once)
    course = Course()
    # A batch of each share is struck; the last share is left in peace.
    strikes = [round((number + 1) * batches / (kills + 1)) for number in range(kills)]
    began: float | None = None
    while True:
        driver = Driver(carried, log=place / "driver.log")
        try:
            driver.await_start()
            began = time.monotonic() if began is None else began
            if live(driver, table, carried, strikes, dice, course):
                course.seconds = driver.seconds if not kills else time.monotonic() - began
                return course
        finally:
            driver.kill()


def live(
    driver: "Driver",
    table: Table,
    carried: Carried,
    strikes: list[int],
    dice: random.Random,
    course: Course,
) -> bool:
    """One life of a driver; whether it came to the end of the rows."""
    done, deadline = -1, 0.0
    while driver.is_running:
        batches = batches_of(Path(carried.checkpoint))
        if batches > done:
            done, deadline = batches, time.monotonic() + WITHOUT_PROGRESS_SECONDS_MAX
        assert time.monotonic() < deadline, f"nothing is written any more: {driver.log}"
        if strikes and batches >= strikes[0]:
            strikes.pop(0)
            of_holder = course.holder_kills < course.driver_kills
            if table.kill_holder is not None and of_holder:
                course.holder_kills += 1
                course.in_mid_write += table.kill_holder(dice)
            else:
                time.sleep(dice.uniform(0, DOWN_SECONDS_MAX))
                if driver.is_running:
                    course.driver_kills += 1
                    return False
        time.sleep(LOOK_SECONDS)
    if driver.exit_status == 0:
        return True
    course.ended_by_themselves.append(driver.last_line)
    return False


class Driver:
    """A program of tables_query.py, with all the processes that Spark starts for it."""

    def __init__(self, carried: Carried, *, log: Path) -> None:
        self.log = log
        program = Path(__file__).with_name("tables_query.py")
        with open(log, "ab") as standard_error:
            self._process = subprocess.Popen(
                [sys.executable, str(program), json.dumps(asdict(carried))],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=standard_error,
                text=True,
                env={**os.environ, "PYTHONPATH": python_path(), "SPARK_LOCAL_IP": "127.0.0.1"},
                start_new_session=True,
            )

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    @property
    def exit_status(self) -> int | None:
        return self._process.poll()

    @property
    def seconds(self) -> float:
        """That its query took; it has ended."""
        assert self._process.stdout is not None
        return float(self._process.stdout.readline())

    @property
    def last_line(self) -> str:
        lines = self.log.read_text("utf-8", "replace").strip().splitlines()
        return lines[-1][:200] if lines else f"status {self.exit_status}"

    def await_start(self) -> None:
        assert self._process.stdout is not None
        told = self._process.stdout.readline()
        assert told == "started\n", f"{told!r}, see {self.log}: {self.last_line}"

    def kill(self) -> None:
        for pid in session_pids(self._process.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


@contextmanager
def opened(into: str, place: Path, *, dsn: str | None) -> Iterator[Table]:
    match into:
        case "folder":
            target = str(place / "table")
            yield Table(
                into=into,
                target=target,
                storage_options={},
                found=lambda expected: delta_found(DeltaTable(target), expected),
                kill_holder=None,
            )
        case "s3":
            store = ObjectStore(place / "store")
            store.start()
            try:
                bucket = store.new_bucket()
                target = f"s3://{bucket}/table"
                options = store_options(target, store.options)
                yield Table(
                    into=into,
                    target=target,
                    storage_options=store.options,
                    found=lambda expected: delta_found(
                        DeltaTable(target, storage_options=options), expected
                    ),
                    kill_holder=lambda dice: kill_store(store, bucket, dice),
                )
            finally:
                store.kill()
        case "postgres" if dsn is not None:
            yield database(dsn, pid_is_here=False)
        case "postgres":
            with PackagedPostgres() as server:
                yield database(server.new_database("bench"), pid_is_here=True)
        case _:
            raise ValueError(f"--into {into}: it can be {', '.join(KINDS)}")


def database(dsn: str, *, pid_is_here: bool) -> Table:
    with psycopg.connect(dsn) as connection:
        connection.execute(
            f"DROP TABLE IF EXISTS {PG_TABLE}, rewritten, penstock_batches;"
            "DROP FUNCTION IF EXISTS note_rewritten"
        )
        connection.execute(MAKE_CARRIED)
    return Table(
        into=POSTGRES,
        target=dsn,
        storage_options={},
        found=lambda expected: postgres_found(dsn, expected),
        kill_holder=lambda dice: kill_writer(dsn, pid_is_here=pid_is_here),
        settings=lambda: postgres_settings(dsn),
    )


def kill_store(store: ObjectStore, bucket: str, dice: random.Random) -> bool:
    caught = await_moment(lambda: any(store.unfinished_uploads(bucket).values()))
    store.kill()
    time.sleep(dice.uniform(0, DOWN_SECONDS_MAX))
    store.start()
    return caught


def kill_writer(dsn: str, *, pid_is_here: bool) -> bool:
    """The process of the database that has a batch in its transaction."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        if not await_moment(lambda: connection.execute(WRITER).fetchone() is not None):
            return False
        found = connection.execute(WRITER).fetchone()
        if found is None:
            return False
        if pid_is_here:
            with suppress(ProcessLookupError):
                os.kill(found[0], signal.SIGKILL)
        else:
            connection.execute("SELECT pg_terminate_backend(%s)", found)
        return True


def await_moment(is_there: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + MOMENT_SECONDS_MAX
    while not is_there():
        if time.monotonic() > deadline:
            return False
        time.sleep(LOOK_SECONDS / 10)
    return True


def delta_found(table: DeltaTable, expected: Expected) -> Found:
    def rows() -> Iterator[tuple[Place, bytes | None]]:
        for batch in table.to_pyarrow_dataset().to_batches(columns=[*KEYS, "value"]):
            partitions, offsets, values = (column.to_pylist() for column in batch.columns)
            yield from zip(zip(partitions, offsets, strict=True), values, strict=True)

    return compared(rows(), expected)


def postgres_found(dsn: str, expected: Expected) -> Found:
    """A row that was written again is there once, and noted."""
    with psycopg.connect(dsn) as connection, connection.cursor("rows") as rows:
        rows.itersize = ROWS_AT_ONCE
        rows.execute(f"SELECT {', '.join(KEYS)}, value FROM {PG_TABLE}")
        found = compared((((row[0], row[1]), row[2]) for row in rows), expected)
        [again] = connection.execute("SELECT count(*) FROM rewritten").fetchone() or (0,)
    return replace(found, duplicates=found.duplicates + again)


def postgres_settings(dsn: str) -> dict[str, str]:
    with psycopg.connect(dsn) as connection:
        return {
            name: (connection.execute(f"SHOW {name}").fetchone() or ("?",))[0]
            for name in DURABILITY
        }


def batches_of(checkpoint: Path) -> int:
    """How many batches Spark has noted as written; it keeps the notes of the last hundred."""
    commits = checkpoint / "commits"
    if not commits.is_dir():
        return 0
    return max((int(one.name) + 1 for one in commits.iterdir() if one.name.isdecimal()), default=0)


HEADING = (
    f"{'into':10}{'kills':>8}{'of driver':>11}{'of holder':>11}{'in write':>10}{'errors':>8}"
    f"{'seconds':>10}{'rows/s':>12}{'MB/s':>9}{'duplicates':>12}{'missing':>9}{'wrong':>7}"
)


def show(into: str, plan: Plan, course: Course, found: Found, settings: dict[str, str]) -> None:
    kills = course.driver_kills + course.holder_kills
    print(
        f"{into:10}{kills:>8}{course.driver_kills:>11}{course.holder_kills:>11}"
        f"{course.in_mid_write:>10}{len(course.ended_by_themselves):>8}{course.seconds:>10.1f}"
        f"{plan.rows / course.seconds:>12,.0f}{plan.megabytes / course.seconds:>9.1f}"
        f"{found.duplicates:>12,}{found.missing:>9,}{found.wrong:>7,}",
        flush=True,
    )
    if settings:
        print("  " + ", ".join(f"{name} {value}" for name, value in settings.items()), flush=True)
    for line in course.ended_by_themselves:
        print(f"  ended by itself: {line}")


def keep(
    output: Path | None,
    into: str,
    plan: Plan,
    kills: int,
    course: Course,
    found: Found,
    settings: dict[str, str],
) -> None:
    """Every run is added as a line of JSON."""
    if output is None:
        return
    line = {"into": into, **asdict(plan), "kills": kills, **asdict(course), **asdict(found)}
    line["settings"] = settings
    with open(output, "a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--into", default=",".join(KINDS), help="tables, with commas")
    parser.add_argument("--megabytes", type=float, default=500.0, help="of values in each run")
    parser.add_argument("--value-bytes", type=int, default=1_000)
    parser.add_argument("--rows-at-once", type=int, default=50_000, help="of a batch of Spark")
    parser.add_argument("--kills", type=int, default=4, help="of a second run; 0: without one")
    parser.add_argument("--seed", type=int, default=1, help="of the moments of the kills")
    parser.add_argument("--master", default="local[2,4]")
    parser.add_argument("--dsn", help="of a PostgreSQL, instead of one from a wheel (fsync off)")
    parser.add_argument("--output", type=Path, help="every run is added here as a line of JSON")
    parser.add_argument("--quick", action="store_true", help="1 MB and 2 kills")
    chosen = parser.parse_args()
    if chosen.quick:
        chosen.megabytes, chosen.kills, chosen.rows_at_once = 1.0, 2, 100
    return chosen


if __name__ == "__main__":
    main()
