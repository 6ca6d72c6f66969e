"""What no request of the protocol tells, and the metrics of a node do: how many files and
connections it has open, and how many it may; which topics are written without acks of all; what its
clock shows.

The settings of a node tell where it answers GET /metrics, so what is asked is known, and a node of
Apache Kafka, which has no such setting, is not asked.

On a loopback each machine has a node of its own: whose metrics they are is read from the page.
"""

import re
from collections.abc import Iterable, Mapping

from penstock.client.admin.last_batches import StoredBatch
from penstock.client.network.errors import ClientError
from penstock.client.network.routing import BrokerView
from penstock.doctor.seen import ClockSeen, DescriptorsSeen, EarlyAcks, Seen, Settings, Unseen
from penstock.model.identity import NodeId, TopicPartition
from penstock.model.lazy_dataclass import dataclass
from penstock.model.settings.listener import local_address
from penstock.world.errors import NetworkError
from penstock.world.ports import Address, Clock
from penstock.world.web import read_address

SETTING = "penstock.metrics.address"
ANY_INTERFACE = ("0.0.0.0", "::")
METRICS_BYTES_MAX = 64 * 2**20
METRICS_TIMEOUT_MS = 60_000
INFO = re.compile(rb"^penstock_node_info\{([^}]*)\}", re.MULTILINE)
OPEN = re.compile(rb"^process_open_fds ([0-9.e+]+)$", re.MULTILINE)
TIME = re.compile(rb"^penstock_node_time_seconds ([0-9.e+]+)$", re.MULTILINE)
LIMIT = re.compile(rb"^process_max_fds ([0-9.e+]+)$", re.MULTILINE)
EARLY_ACKED = re.compile(
    rb'^penstock_early_acked_batches_total\{topic="([^"]+)"\} ([0-9.e+]+)$', re.MULTILINE
)
MESSAGES_IN = re.compile(
    rb'^kafka_server_brokertopicmetrics_messagesin_total\{topic="([^"]+)"\} ([0-9.e+]+)$',
    re.MULTILINE,
)
Batches = Mapping[TopicPartition, tuple[StoredBatch, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsPage:
    text: bytes
    asked_ms: int  # since 1970, by the clock of this machine
    took_ms: int


def metrics_address(broker: BrokerView, settings: Seen[Settings]) -> Seen[Address]:
    """Where that broker tells its metrics; why nobody knows, else."""
    who = f"broker {broker.node_id}"
    if isinstance(settings, Unseen):
        return settings
    if SETTING not in settings:
        return Unseen(reason="no request tells it, and only nodes of Penstock have metrics that do")
    text = settings[SETTING]
    if not text:
        return Unseen(reason=f"no request tells it, but metrics do, and {SETTING} is not set")
    try:
        told = local_address(text)
    except ValueError as error:
        return Unseen(reason=f"{who}: {error}")
    if not told.port:
        return Unseen(reason=f"{who} tells its metrics at a port that no request tells")
    host = broker.address.host if told.host in ANY_INTERFACE else told.host
    return Address(host=host, port=told.port)


async def metrics_page(
    address: Address, node_id: NodeId, clock: Clock, *, cluster_id: str | None
) -> MetricsPage:
    """ClientError also where another node answers than the one that is asked for."""
    url = f"http://{address}/metrics"
    asked_ms, began_ms = clock.now_ms(), clock.monotonic_ms()
    try:
        page = await read_address(url, bytes_max=METRICS_BYTES_MAX, timeout_ms=METRICS_TIMEOUT_MS)
    except NetworkError as error:
        raise ClientError(f"{url}: {error}") from error
    took_ms = clock.monotonic_ms() - began_ms
    info = INFO.search(page)
    labels = () if info is None else info[1].decode("utf-8", "replace").split(",")
    wanted = {f'node_id="{node_id}"'}
    if cluster_id is not None:
        wanted.add(f'cluster_id="{cluster_id}"')
    if not wanted.issubset(labels):
        raise ClientError(
            f"they are told on its own machine alone, for another node answers at {url} here"
        )
    return MetricsPage(text=page, asked_ms=asked_ms, took_ms=took_ms)


def clock_seen(page: Seen[MetricsPage], node_id: NodeId) -> Seen[ClockSeen]:
    if isinstance(page, Unseen):
        return page
    told = TIME.search(page.text)
    if told is None:
        return Unseen(reason="their metrics do not tell it: they are of an older version")
    half_ms = page.took_ms // 2
    return ClockSeen(
        node_id=node_id,
        ahead_ms=round(float(told[1]) * 1000) - page.asked_ms - half_ms,
        within_ms=half_ms + 1,
    )


def descriptors_seen(page: Seen[MetricsPage]) -> Seen[DescriptorsSeen]:
    if isinstance(page, Unseen):
        return page
    opened, limit = OPEN.search(page.text), LIMIT.search(page.text)
    if opened is None or limit is None:
        return Unseen(reason="metrics tell descriptors on Linux alone")
    return DescriptorsSeen(open=int(float(opened[1])), limit=int(float(limit[1])))


def asks_again(pages: Iterable[Seen[MetricsPage]], batches: Seen[Batches]) -> bool:
    """Counters count since a node started, so it takes a second look to know how producers write
    now. It is needed only where acks of one were counted and batches do not rule them out.
    """
    if isinstance(batches, Unseen):
        return False
    suspects = {
        place.topic
        for place, sampled in batches.items()
        if any(one.producer_id is None for one in sampled)
    }
    return any(
        _counts(EARLY_ACKED, page).get(topic, 0)
        for page in pages
        if not isinstance(page, Unseen)
        for topic in suspects
    )


def early_acks_seen(
    first: Seen[MetricsPage], later: Seen[MetricsPage]
) -> Seen[dict[str, EarlyAcks]]:
    """By topic."""
    if isinstance(first, Unseen):
        return first
    if isinstance(later, Unseen):
        return later
    before, now = _counts(EARLY_ACKED, first), _counts(EARLY_ACKED, later)
    records_before, records_now = _counts(MESSAGES_IN, first), _counts(MESSAGES_IN, later)
    return {
        topic: EarlyAcks(
            before=before.get(topic, 0),
            meanwhile=_grown(before.get(topic, 0), now.get(topic, 0)),
            records=_grown(records_before.get(topic, 0), records_now.get(topic, 0)),
        )
        for topic in before | now | records_now
    }


def _counts(family: re.Pattern[bytes], page: MetricsPage) -> dict[str, int]:
    return {topic.decode(): int(float(count)) for topic, count in family.findall(page.text)}


def _grown(before: int, now: int) -> int:
    """A counter that fell is that of a node which was started again."""
    return now - before if now >= before else now
