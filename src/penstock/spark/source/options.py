"""The options of the source: what is read, from where to where, and how much at a time."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from penstock.client.consume.isolation import Isolation
from penstock.model.limit import KIB, MIB
from penstock.spark import query_group
from penstock.spark.options import BadOption, ConnectionOptions, Given, given
from penstock.spark.source.positions import (
    NoneThatYoung,
    Selection,
    Where,
    ending,
    selection,
    starting,
)
from penstock.spark.source.tasks import TaskRules

ENDING = ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp")
# Spark plans a single read as a whole, and it has no progress to show.
STREAMING = (
    "maxOffsetsPerTrigger",
    "maxOffsetsPerTriggerBy",
    "maxBytesPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    *query_group.OPTIONS,
)
# Options of a stream that say more about another one, and need it.
NEEDED = {
    "maxOffsetsPerTriggerBy": "maxOffsetsPerTrigger",
    "maxTriggerDelay": "minOffsetsPerTrigger",
}
KNOWN = (
    "subscribe",
    "subscribePattern",
    "assign",
    "startingOffsets",
    "startingOffsetsByTimestamp",
    "startingTimestamp",
    "startingOffsetsByTimestampStrategy",
    *ENDING,
    *STREAMING,
    "minPartitions",
    "maxPartitions",
    "maxRecordsPerPartition",
    "failOnDataLoss",
    "includeHeaders",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
)
RENAMED: dict[str, str] = {}  # former names of options
HEEDED = ("group.id", "isolation.level", "max.partition.fetch.bytes")  # beside options.HEEDED
ISOLATIONS = {
    "read_committed": Isolation.READ_COMMITTED,
    "read_uncommitted": Isolation.READ_UNCOMMITTED,
}
BYTE_UNITS = {"k": KIB, "m": MIB, "g": KIB * MIB, "t": MIB * MIB}
TIME_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


class LimitBy(Enum):
    """How the records of a limited batch are chosen among partitions."""

    BACKLOG = "backlog"  # in proportion to what each has waiting, as Spark's own source
    TIMESTAMP = "timestamp"  # so that all of them end at about the same time


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How the driver waits for brokers that are away: for so many questions, or else so long."""

    retries_max: int | None = None
    pause_ms: int = 200
    wait_ms_max: int = 60_000

    def is_over(self, *, retries: int, waited_ms: int) -> bool:
        if self.retries_max is None:
            return waited_ms >= self.wait_ms_max
        return retries >= self.retries_max


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    connection: ConnectionOptions
    selection: Selection
    starting: Where
    ending: Where  # of what is read once; a stream has no end
    tasks: TaskRules
    none_that_young: NoneThatYoung = NoneThatYoung.ERROR
    offsets_per_trigger_max: int | None = None
    offsets_per_trigger_by: LimitBy = LimitBy.BACKLOG
    offsets_per_trigger_min: int | None = None
    bytes_per_trigger_max: int | None = None
    trigger_delay_ms_max: int = 15 * 60_000
    fail_on_data_loss: bool = True
    include_headers: bool = False
    isolation: Isolation = Isolation.READ_COMMITTED
    fetch_bytes_max: int = 2 * MIB
    group: str | None = None  # that shows how far a query is, where it was told
    wait_ms_max: int = 60_000  # how long a task waits for records that ought to be there
    patience: Patience = Patience()


def source_options(
    options: Mapping[str, str], *, streaming: bool, cores: int | None = None
) -> SourceOptions:
    """Of a reader's options; BadOption, in one line, for what is wrong with them. `cores` are those
    of Spark, if it is known how many it has.
    """
    read = given(options, known=KNOWN, heeded=HEEDED)
    connection = read.connection()
    if streaming:
        for name in ENDING:
            if name in read:
                raise BadOption(f"option {name} is for a single read: a stream has no end")
    wait_ms_max = read.number("kafkaConsumer.pollTimeoutMs")
    pause_ms = read.number("fetchOffset.retryIntervalMs", least=0)
    return SourceOptions(
        connection=connection,
        selection=selection(
            subscribe=read.names("subscribe"),
            subscribe_pattern=read.text("subscribePattern"),
            assign=read.text("assign"),
        ),
        starting=starting(
            offsets=read.text("startingOffsets"),
            offsets_by_timestamp=read.text("startingOffsetsByTimestamp"),
            timestamp=read.text("startingTimestamp"),
            streaming=streaming,
        ),
        ending=ending(
            offsets=read.text("endingOffsets"),
            offsets_by_timestamp=read.text("endingOffsetsByTimestamp"),
            timestamp=read.text("endingTimestamp"),
        ),
        none_that_young=read.choice(
            "startingOffsetsByTimestampStrategy",
            {one.value: one for one in NoneThatYoung},
            NoneThatYoung.ERROR,
        ),
        offsets_per_trigger_max=read.number("maxOffsetsPerTrigger"),
        offsets_per_trigger_by=read.choice(
            "maxOffsetsPerTriggerBy", {one.value: one for one in LimitBy}, LimitBy.BACKLOG
        ),
        offsets_per_trigger_min=_least_per_trigger(read),
        bytes_per_trigger_max=_bytes(read, "maxBytesPerTrigger"),
        trigger_delay_ms_max=_duration_ms(read, "maxTriggerDelay", 15 * 60_000),
        tasks=_tasks(read, cores),
        fail_on_data_loss=read.flag("failOnDataLoss", True),
        include_headers=read.flag("includeHeaders", False),
        isolation=_isolation(connection),
        fetch_bytes_max=connection.number("max.partition.fetch.bytes", 2 * MIB, least=KIB),
        group=query_group.chosen_group(read),
        wait_ms_max=60_000 if wait_ms_max is None else wait_ms_max,
        patience=Patience(
            retries_max=read.number("fetchOffset.numRetries", least=0),
            pause_ms=200 if pause_ms is None else pause_ms,
        ),
    )


def without_effect(told: Mapping[str, str], *, streaming: bool) -> list[str]:
    """A sentence for each option, given by names in lower case, that changes nothing."""
    if not streaming:
        return [
            f"option {name} has no effect on a single read: it is for streams"
            for name in STREAMING
            if name.lower() in told
        ]
    return [
        f"option {name} has no effect without {needed}"
        for name, needed in NEEDED.items()
        if name.lower() in told and needed.lower() not in told
    ]


def includes_headers(options: Mapping[str, str]) -> bool:
    """Asked before it is known what the options are for."""
    return given(options, known=(*options, *KNOWN)).flag("includeHeaders", False)


def _isolation(connection: ConnectionOptions) -> Isolation:
    told = connection.setting("isolation.level") or "read_committed"
    if told.lower() not in ISOLATIONS:
        raise BadOption(
            f"option kafka.isolation.level is {told!r}: it can be {' or '.join(ISOLATIONS)}"
        )
    return ISOLATIONS[told.lower()]


def _tasks(read: Given, cores: int | None) -> TaskRules:
    least, most = read.number("minPartitions"), read.number("maxPartitions")
    if least is not None and most is not None and least > most:
        raise BadOption("option minPartitions is more than maxPartitions")
    return TaskRules(
        tasks_min=least,
        tasks_max=most,
        records_max=read.number("maxRecordsPerPartition"),
        cores=cores,
    )


def _least_per_trigger(read: Given) -> int | None:
    least = read.number("minOffsetsPerTrigger")
    most = read.number("maxOffsetsPerTrigger")
    if least is not None and most is not None and least > most:
        raise BadOption("option minOffsetsPerTrigger is more than maxOffsetsPerTrigger")
    return least


def _bytes(read: Given, name: str) -> int | None:
    """A size such as 10m, 500k or 1g, as everywhere in Spark, or a number of bytes."""
    told = read.text(name)
    if told is None:
        return None
    number = told.strip().lower().removesuffix("b")
    unit = number[-1:] if number[-1:] in BYTE_UNITS else ""
    digits = number.removesuffix(unit).strip() if unit else number
    if not digits.isascii() or not digits.isdigit() or int(digits) < 1:
        raise BadOption(f"option {name} is {told!r}: it must be a size such as 500k, 10m or 1g")
    return int(digits) * (BYTE_UNITS[unit] if unit else 1)


def _duration_ms(read: Given, name: str, default: int) -> int:
    """A time such as 15m, 30s or 500ms."""
    told = read.text(name)
    if told is None:
        return default
    text = told.strip().lower()
    number = text.rstrip("abcdefghijklmnopqrstuvwxyz ")
    unit = text[len(number) :].strip() or "ms"
    if not number.isascii() or not number.isdigit() or unit not in TIME_UNITS_MS:
        raise BadOption(f"option {name} is {told!r}: it must be a duration such as 15m or 30s")
    return int(number) * TIME_UNITS_MS[unit]
