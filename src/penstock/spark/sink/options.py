"""The options of the sink: what is written where, and with which promise."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from penstock.model.limit import KIB, MIB
from penstock.records.compression import Codec
from penstock.spark.options import SINK_ID, BadOption, ConnectionOptions, Given, given

IDENTITY = (SINK_ID, "queryId", "runId", "batchId")
DECIDING = ("decisionTopic", "decisionReplicas", "twoPhase")
KNOWN = ("topic", "includeHeaders", "delivery", "mode", *DECIDING, *IDENTITY)
RENAMED = {"mode": "delivery"}  # what Spark's writers call mode is another thing
HEEDED = (  # beside options.HEEDED
    "batch.size",
    "buffer.memory",
    "compression.type",
    "delivery.timeout.ms",
    "max.request.size",
    "transaction.timeout.ms",
)
DECISION_TOPIC = "__penstock_sinks"
SINK_ID_MAX = 255
BATCH_BYTES = 256 * KIB
REQUEST_BYTES = MIB
BUFFER_BYTES = 32 * MIB
CHUNK_BYTES = 4 * MIB
DELIVERY_MS = 120_000
TIMEOUT_MS = 900_000  # what a broker allows at most, unless it is told otherwise


class SinkMode(Enum):
    EXACTLY_ONCE = "exactly_once"
    AT_LEAST_ONCE = "at_least_once"


class TwoPhase(Enum):
    """Whether transactions wait for the decision without a time-out."""

    AUTO = "auto"  # where the brokers let them
    REQUIRED = "required"
    OFF = "off"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchIdentity:
    """Which batch of a query a write is, where the query's program calls it (foreachBatch)."""

    query_id: str
    run_id: str
    batch_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    connection: ConnectionOptions
    topic: str | None = None
    mode: SinkMode = SinkMode.EXACTLY_ONCE
    sink_id: str | None = None
    decision_topic: str = DECISION_TOPIC
    decision_replicas: int | None = None  # as many as the brokers give a topic
    checkpoint_location: str | None = None
    identity: BatchIdentity | None = None
    two_phase: TwoPhase = TwoPhase.AUTO
    timeout_ms: int = TIMEOUT_MS  # of transactions, where they are not two-phase
    codec: Codec = Codec.NONE
    batch_bytes: int = BATCH_BYTES
    request_bytes: int = REQUEST_BYTES
    buffer_bytes: int = BUFFER_BYTES
    delivery_ms_max: int = DELIVERY_MS
    chunk_bytes: int = CHUNK_BYTES  # so many are encoded at once; no option of users

    @property
    def query_sink(self) -> str:
        """The name of a query's sink: as it was given, or by the checkpoint that the query has."""
        if self.sink_id is not None:
            return self.sink_id
        if self.checkpoint_location is None:
            raise BadOption(
                "option sinkId is missing: exactly-once needs a lasting name, by this option or by"
                " option checkpointLocation"
            )
        place = self.checkpoint_location.removeprefix("file://").removeprefix("file:").rstrip("/")
        return f"spark-{hashlib.sha256(place.encode()).hexdigest()[:16]}"


def sink_options(options: Mapping[str, str]) -> SinkOptions:
    """Of a writer's options; BadOption, in one line, for what is wrong with them."""
    read = given(options, known=KNOWN, heeded=HEEDED)
    connection = read.connection()
    batch_bytes = connection.number("batch.size", BATCH_BYTES, least=1)
    mode, two_phase = _mode(read), _two_phase(read)
    if mode is SinkMode.AT_LEAST_ONCE and two_phase is TwoPhase.REQUIRED:
        raise BadOption(
            "option twoPhase is 'required', and delivery is 'at_least_once', which writes without"
            " transactions"
        )
    topic, decision_topic = read.text("topic"), read.text("decisionTopic") or DECISION_TOPIC
    if topic == decision_topic:
        raise BadOption(f"option topic is {topic!r}, the decision topic, which holds nothing else")
    return SinkOptions(
        connection=connection,
        topic=topic,
        mode=mode,
        sink_id=_sink_id(read.text("sinkId")),
        decision_topic=decision_topic,
        decision_replicas=read.number("decisionReplicas", least=1),
        checkpoint_location=read.text("checkpointLocation"),
        identity=_identity(read),
        two_phase=two_phase,
        timeout_ms=connection.number("transaction.timeout.ms", TIMEOUT_MS, least=1),
        codec=_codec(connection.setting("compression.type")),
        batch_bytes=batch_bytes,
        request_bytes=connection.number("max.request.size", REQUEST_BYTES, least=1),
        buffer_bytes=max(batch_bytes, connection.number("buffer.memory", BUFFER_BYTES, least=1)),
        delivery_ms_max=connection.number("delivery.timeout.ms", DELIVERY_MS, least=1),
    )


def without_effect(told: Mapping[str, str], *, streaming: bool) -> list[str]:
    """A sentence for each option, given by names in lower case, that changes nothing."""
    delivery = told.get("delivery") or told.get("mode") or ""
    if delivery.strip().lower() != SinkMode.AT_LEAST_ONCE.value:
        return []
    # Those of a batch come with `batch_writer`: nobody has given them.
    names = DECIDING if "batchid" in told else (*DECIDING, SINK_ID)
    return [
        f"option {name} has no effect with delivery=at_least_once, which has no transactions"
        for name in names
        if name.lower() in told
    ]


def _two_phase(read: Given) -> TwoPhase:
    return read.choice("twoPhase", {one.value: one for one in TwoPhase}, TwoPhase.AUTO)


def _mode(read: Given) -> SinkMode:
    """By option delivery, or by its former name."""
    if "delivery" in read and "mode" in read:
        raise BadOption("option mode is the former name of delivery: give delivery alone")
    name = "mode" if "mode" in read else "delivery"
    return read.choice(name, {one.value: one for one in SinkMode}, SinkMode.EXACTLY_ONCE)


def _sink_id(told: str | None) -> str | None:
    """It is part of transactional ids, which people read in lists."""
    if told is not None and len(told) > SINK_ID_MAX:
        raise BadOption(
            f"option sinkId has {len(told)} characters: at most {SINK_ID_MAX} are allowed"
        )
    if told is not None and not told.isprintable():
        raise BadOption(
            f"option sinkId is {told!r}: line breaks and control characters are not allowed"
        )
    return told


def _identity(read: Given) -> BatchIdentity | None:
    query_id, run_id, batch_id = read.text("queryId"), read.text("runId"), read.text("batchId")
    if query_id is None and run_id is None and batch_id is None:
        return None
    number = read.number("batchId", least=0)
    missing = [name for name in IDENTITY if name not in read]
    if query_id is None or run_id is None or number is None or missing:
        raise BadOption(
            f"option {missing[0]} is missing: a write of a batch needs {', '.join(IDENTITY)}"
        )
    if "." in run_id:
        raise BadOption(f"option runId is {run_id!r}: dots are not allowed")
    return BatchIdentity(query_id=query_id, run_id=run_id, batch_id=number)


def _codec(told: str | None) -> Codec:
    names = {codec.name.lower(): codec for codec in Codec}
    if told is None:
        return Codec.NONE
    if told.strip().lower() not in names:
        raise BadOption(
            f"option kafka.compression.type is {told!r}: it can be {' or '.join(names)}"
        )
    return names[told.strip().lower()]
