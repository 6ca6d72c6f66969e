"""The load: templates of batches, and the Go program in bench/load that sends them."""

import hashlib
import json
import os
import random
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path

from brokers import Broker
from cases import (
    FETCH_BY_ID,
    FETCH_BY_NAME,
    PRODUCE_BY_ID,
    PRODUCE_BY_NAME,
    Case,
    Kind,
    Payload,
)
from framings import Framing

from penstock.records.batch import BatchView
from penstock.records.build import build_batch, record_bytes_max, seal_batch
from penstock.records.record import Record

SOURCE = Path(__file__).resolve().parent / "load"
BATCH_HEADER_BYTES = 61
TEMPLATE_BYTES_MAX = 8 * 1024 * 1024  # of one file: enough to vary, little enough to stay cached
TEMPLATES_MAX = 64
LOAD_SECONDS_MAX = 300
RUNS_OF = {Kind.SMALL: "produce"}  # a kind of case that is another kind of load
WORDS = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What the load program saw in one run."""

    seconds: float
    cpu_seconds: float
    requests: int
    bytes: int
    p50_ms: float
    p99_ms: float
    p999_ms: float
    max_ms: float
    commits: int
    begun_p50_ms: float  # from a commit to the first ack of the next transaction
    begun_p99_ms: float
    cipher: str  # of TLS; empty: plain text


@dataclass(frozen=True, slots=True, kw_only=True)
class Templates:
    """A file of prebuilt batches, and what one of them holds."""

    path: Path
    values_per_batch: int
    value_share: float  # bytes of values in a byte of batch, as sent


class LoadFailed(Exception):
    """A run that did not come to its end, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    name: str
    topic_id: bytes
    leaders: Sequence[str] = ()  # of its partitions; empty: the broker leads all


def built_load() -> Path | str:
    """The load program, compiled when its source has changed; or why there is none."""
    go = shutil.which("go")
    if go is None:
        return "the load program needs Go (1.22 or newer): `go` is not on the PATH"
    digest = hashlib.sha256()
    for file in sorted(SOURCE.iterdir()):
        digest.update(file.read_bytes())
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    program = Path(root) / "penstock-bench" / f"load-{digest.hexdigest()[:16]}"
    if not program.exists():
        program.parent.mkdir(parents=True, exist_ok=True)
        command = [go, "build", "-o", str(program), "."]
        built = subprocess.run(command, cwd=SOURCE, capture_output=True, text=True)
        if built.returncode:
            return f"the load program does not compile: {built.stderr.strip()}"
    return program


def write_templates(case: Case, folder: Path) -> Templates:
    """Batches of the case's records, in the framing of its client."""
    now_ms = int(time.time() * 1000)
    size_max = record_bytes_max(None, bytes(case.record_bytes), ())
    per_batch = max((case.batch_bytes - BATCH_HEADER_BYTES) // (size_max - 20), 1)
    count = min(max(TEMPLATE_BYTES_MAX // max(case.batch_bytes, 1024), 1), TEMPLATES_MAX)
    path = folder / f"{case.name.replace('/', '-')}.batches"
    values = values_of(case.payload, case.record_bytes)
    size = 0
    with open(path, "wb") as file:
        for _ in range(count):
            records = [
                Record(key=None, value=next(values), timestamp_ms=now_ms) for _ in range(per_batch)
            ]
            batch = framed_batch(build_batch(records), case.framing)
            file.write(len(batch).to_bytes(4, "big") + batch)
            size += len(batch)
    share = per_batch * case.record_bytes * count / size
    return Templates(path=path, values_per_batch=per_batch, value_share=share)


def values_of(payload: Payload, size_bytes: int) -> Iterator[bytes]:
    """Values without end, the same in every run."""
    chance = random.Random(7)
    words = [
        "".join(chance.choices("etaoinshrdlucmfw", k=chance.randint(3, 9))) for _ in range(WORDS)
    ]
    text = " ".join(chance.choices(words, k=size_bytes)).encode()
    while True:
        if payload is Payload.HALF:
            noise_bytes = size_bytes // 2
            yield chance.randbytes(noise_bytes) + text[: size_bytes - noise_bytes]
        else:
            yield " ".join(chance.choices(words, k=size_bytes // 4)).encode()[:size_bytes]


def framed_batch(plain: bytearray, framing: Framing) -> bytearray:
    """A batch that is not compressed, as the framing has it."""
    view = BatchView(memoryview(plain))
    return seal_batch(
        framing.compress(bytes(plain[BATCH_HEADER_BYTES:])),
        base_offset=view.base_offset,
        leader_epoch=view.leader_epoch,
        attributes=int(framing.codec),
        base_timestamp=view.base_timestamp,
        max_timestamp=view.max_timestamp,
        producer_id=view.producer_id,
        producer_epoch=view.producer_epoch,
        base_sequence=view.base_sequence,
        record_count=view.record_count,
    )


def compressed_payloads(templates: Templates) -> Iterator[bytes]:
    """The records of each template as they are compressed."""
    data = templates.path.read_bytes()
    at = 0
    while at < len(data):
        end = at + 4 + int.from_bytes(data[at : at + 4], "big")
        yield data[at + 4 + BATCH_HEADER_BYTES : end]
        at = end


def apply_load(
    program: Path,
    case: Case,
    templates: Templates,
    broker: Broker,
    topic: Topic,
    *,
    scale: float,
) -> Measured:
    """Runs the case against a broker; a fetch case first writes, unmeasured, what it reads."""
    if case.kind is Kind.FETCH:
        _run(program, "produce", case, templates, broker, topic, scale=scale)
    return _run(
        program,
        RUNS_OF.get(case.kind, case.kind.value),
        case,
        templates,
        broker,
        topic,
        scale=scale,
    )


def _run(
    program: Path,
    kind: str,
    case: Case,
    templates: Templates,
    broker: Broker,
    topic: Topic,
    *,
    scale: float,
) -> Measured:
    requests = case.requests
    if requests is None:
        requests = case.value_bytes // (templates.values_per_batch * case.record_bytes)
    options: dict[str, object] = {
        "kind": kind,
        "topic-id": topic.topic_id.hex(),
        "topic": topic.name,
        "produce-version": PRODUCE_BY_NAME if case.by_name else PRODUCE_BY_ID,
        "fetch-version": FETCH_BY_NAME if case.by_name else FETCH_BY_ID,
        "partitions": case.partitions,
        "acks": case.acks,
        "connections": case.connections,
        "in-flight": case.in_flight,
        "templates": templates.path,
        "requests": max(int(requests * scale), 1),
        "passes": case.passes,
        "rate": case.rate or 1000,
        "readers": case.readers,
        "leaders": ",".join(topic.leaders),
    }
    return run_program(program, broker, {**options, **broker.options_at(case.listener)})


def run_program(program: Path, broker: Broker, options: Mapping[str, object]) -> Measured:
    """Runs the load program against a broker, or all nodes of a cluster, whose CPU time it counts;
    see its `Options`.
    """
    command = load_command(program, broker, options)
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=LOAD_SECONDS_MAX)
    except subprocess.TimeoutExpired as late:
        raise LoadFailed(f"no end after {LOAD_SECONDS_MAX} s") from late
    if ended.returncode:
        raise LoadFailed(ended.stderr.strip())
    return measured_of(ended.stdout)


@contextmanager
def beside_program(
    program: Path, broker: Broker, options: Mapping[str, object]
) -> Iterator["Beside"]:
    """Runs the load program while something else is measured."""
    command = load_command(program, broker, options)
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield Beside(process)
        finally:
            process.kill()


class Beside:
    """A load program that runs: some say that they are up, some end with their input."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def await_up(self) -> None:
        assert self._process.stdout is not None
        if self._process.stdout.readline() != "up\n":
            self.end()
            raise LoadFailed("the load ended before it was up")

    def end(self) -> Measured:
        """Closes its input, and waits for what it has to say."""
        try:
            out, err = self._process.communicate(timeout=LOAD_SECONDS_MAX)
        except subprocess.TimeoutExpired as late:
            raise LoadFailed(f"no end after {LOAD_SECONDS_MAX} s") from late
        if self._process.returncode:
            raise LoadFailed(err.strip())
        return measured_of(out)


def load_command(program: Path, broker: Broker, options: Mapping[str, object]) -> list[str]:
    """The CPU time that is counted is that of the broker; options may name another address."""
    address = f"{broker.address[0]}:{broker.address[1]}"
    pids = ",".join(str(pid) for pid in broker.pids)
    given = {"address": address, "pid": pids, **options}
    return [str(program), *(f"-{name}={value}" for name, value in given.items())]


def measured_of(line: str) -> Measured:
    found = json.loads(line)
    return Measured(**{field.name: found[field.name] for field in fields(Measured)})
