"""What the topic of the alerts says: the last report of each, and what was delivered of it."""

from penstock.alerts.delivery import PREFIX, AlertRecords, read_delivery
from penstock.alerts.report import Report, read_report
from penstock.client.consume.consumer import Consumer, ConsumerRules
from penstock.client.consume.cursor import Reset
from penstock.client.consume.fetch_request import FetchRules
from penstock.client.consume.isolation import Isolation
from penstock.client.consume.offsets import When, offsets_of
from penstock.client.network.cluster import Cluster
from penstock.client.network.errors import TimedOut
from penstock.model.identity import TopicPartition

WAIT_MS = 500
READ_MS_MAX = 15_000
COMMITTED = Isolation.READ_COMMITTED
RULES = ConsumerRules(reset=Reset.EARLIEST, fetch=FetchRules(isolation=COMMITTED))


async def read_reports(cluster: Cluster, topic: str) -> dict[bytes, Report]:
    """By key; see `read_alert_records`."""
    return (await read_alert_records(cluster, topic)).reports


async def read_alert_records(cluster: Cluster, topic: str) -> AlertRecords:
    """A record without a value removes its key; other records that are no reports are passed over,
    and so are those of transactions that are open or were aborted. Refused where the topic does not
    exist, TimedOut when there is no getting to its end.
    """
    view = await cluster.need((topic,))
    places = [TopicPartition(topic, one.index) for one in view.topics[topic].partitions]
    starts = await offsets_of(cluster, places, When.EARLIEST, timeout_ms=READ_MS_MAX)
    ends = await offsets_of(
        cluster, places, When.LATEST, isolation=COMMITTED, timeout_ms=READ_MS_MAX
    )
    found = AlertRecords()
    deadline_ms = cluster.clock.monotonic_ms() + READ_MS_MAX
    async with Consumer(cluster, rules=RULES) as consumer:
        await consumer.assign(places)
        for place in places:
            consumer.seek(place, starts[place])
        while any(consumer.positions().get(place, 0) < ends[place] for place in places):
            if cluster.clock.monotonic_ms() >= deadline_ms:
                raise TimedOut(f"{topic}: its end could not be read within {READ_MS_MAX} ms")
            for record in await consumer.poll(wait_ms=WAIT_MS):
                if record.key is not None:
                    _take(found, record.key, record.value)
    return found


def _take(found: AlertRecords, key: bytes, value: bytes | None) -> None:
    if value is None:
        found.reports.pop(key, None)
        found.deliveries.pop(key.removeprefix(PREFIX), None)
        return
    report = read_report(value)
    if report is not None:
        found.reports.pop(key, None)  # the latest stand last
        found.reports[key] = report
    delivery = read_delivery(key, value)
    if delivery is not None:
        found.deliveries[delivery.report_key] = delivery
