"""The topic of the alerts: made when the first one fires, written and read like any other topic.

The node is a client of its cluster here: it connects when there is something to write, and hangs up
afterwards. What cannot be written waits, and is tried again. A topic that was deleted is made again
with the next report of any node; each node then writes what fires there once more (`hold`).
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence

from penstock.alerts.delivery import AlertRecord, AlertRecords
from penstock.alerts.machine import State
from penstock.broker.alerts.waiting_records import WaitingRecords
from penstock.broker.controller.controller_link import ControllerLink
from penstock.broker.coordinators.internal_topic import THERE, internal_topic
from penstock.client.admin.alert_reports import read_alert_records
from penstock.client.network.cluster import Cluster
from penstock.client.network.errors import ClientError, Unreachable
from penstock.client.produce.accumulator import BatchRules
from penstock.client.produce.producer import Delivery, Producer, ProducerRules
from penstock.metadata.image.image import Image
from penstock.model.error import RequestError
from penstock.model.events import ALERT_TOPIC_FAILED
from penstock.model.identity import TopicId
from penstock.model.limit import ALERT_TOPIC_MS_MAX, ALERT_TOPIC_RETRY_MS
from penstock.wire.messages.create_topics import CreateTopicsRequest
from penstock.world.event_log import tell

logger = logging.getLogger(__name__)

PARTITION = 0  # the only one: the order of all alerts is that of their records
RULES = ProducerRules(
    batches=BatchRules(delivery_ms_max=ALERT_TOPIC_MS_MAX),
    block_ms_max=ALERT_TOPIC_MS_MAX,
    request_ms_max=ALERT_TOPIC_MS_MAX,
)


class AlertTopic:
    """`client` gives a way to the cluster, not yet entered; None while no broker is known."""

    def __init__(
        self,
        name: str,
        *,
        replicas: int,
        may_be_alone: bool,
        client: Callable[[], Cluster | None],
        controller: ControllerLink,
        image: Callable[[], Image],
    ) -> None:
        self._name = name
        self._replicas = replicas
        self._may_be_alone = may_be_alone
        self._client = client
        self._controller = controller
        self._image = image
        self._waiting = WaitingRecords()
        self._holders: dict[bytes, TopicId] = {}  # the topic with the record of a firing alert

    def add(self, record: AlertRecord) -> None:
        self._waiting.add(record)

    def hold(self, firing: Collection[AlertRecord]) -> None:
        """What is so of alerts that fire now. A record that is in a topic of this name that has
        been deleted is written again, once there is another one.
        """
        keys = {record.key for record in firing}
        self._holders = {key: one for key, one in self._holders.items() if key in keys}
        topic_id = self._topic_id()
        if topic_id is None:
            return
        waiting = self._waiting.keys
        for record in firing:
            if self._waiting.is_full:
                return  # the rest when there is room
            if self._holders.get(record.key) != topic_id and record.key not in waiting:
                self._waiting.add(record)

    async def known(self) -> AlertRecords | None:
        """The last records of each alert; None when they cannot be read now."""
        topic_id = self._topic_id()
        if topic_id is None:
            return AlertRecords()
        try:
            async with asyncio.timeout(ALERT_TOPIC_MS_MAX / 1000), self._entered() as cluster:
                found = await read_alert_records(cluster, self._name)
        except (ClientError, TimeoutError) as error:
            logger.info("alerts topic=%s read=false reason=%r", self._name, error)
            return None
        records: tuple[AlertRecord, ...] = (*found.reports.values(), *found.deliveries.values())
        for record in records:
            if record.state is State.FIRING:
                self._holders[record.key] = topic_id
        return found

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            records = await self._waiting.some()
            try:
                async with asyncio.timeout(ALERT_TOPIC_MS_MAX / 1000):
                    await self._create()
                    await self._write(records)
            except (ClientError, RequestError, TimeoutError) as error:
                tell(
                    logger,
                    ALERT_TOPIC_FAILED,
                    topic=self._name,
                    waiting=len(self._waiting),
                    reason=str(error) or f"not within {ALERT_TOPIC_MS_MAX} ms",
                )
            else:
                continue
            await asyncio.sleep(ALERT_TOPIC_RETRY_MS / 1000)

    async def _create(self) -> None:
        image = self._image()
        if self._name in image.topics_by_name:
            return
        # Brokers that are down count: the first alert often fires because one is, and the topic
        # would keep fewer replicas for good.
        wanted = internal_topic(
            self._name,
            partitions=1,
            replicas=self._replicas,
            brokers=len(image.brokers),
            may_be_alone=self._may_be_alone,
            configs={"cleanup.policy": "compact"},
        )
        request = CreateTopicsRequest(topics=[wanted], timeout_ms=ALERT_TOPIC_MS_MAX)
        answer = await self._controller.ask(request, wait_ms_max=ALERT_TOPIC_MS_MAX)
        [result] = answer.topics
        if result.error_code not in THERE:
            raise Unreachable(f"the topic could not be created: {result.error_message}")

    async def _write(self, records: Sequence[AlertRecord]) -> None:
        topic_id = self._topic_id()
        deliveries: list[Delivery] = []
        try:
            async with self._entered() as cluster, Producer(cluster, rules=RULES) as producer:
                for record in records:
                    delivery = await producer.send(
                        self._name,
                        record.body,
                        key=record.key,
                        timestamp_ms=record.at_ms,
                        partition=PARTITION,
                    )
                    deliveries.append(delivery)
                await producer.flush()
        finally:
            # Every delivery is looked at, whatever became of the others or ended the attempt.
            errors = [_error_of(delivery) for delivery in deliveries]
            self._note_written(records, errors, topic_id)
        for error in errors:
            if error is not None:
                raise error

    def _note_written(
        self,
        records: Sequence[AlertRecord],
        errors: Sequence[BaseException | None],
        topic_id: TopicId | None,
    ) -> None:
        """Up to the first that was not written: what follows it is written again, behind it."""
        for record, error in zip(records, errors, strict=False):
            if error is not None:
                return
            self._waiting.written(record)
            if record.state is State.FIRING and topic_id is not None:
                self._holders[record.key] = topic_id

    def _topic_id(self) -> TopicId | None:
        topic = self._image().topics_by_name.get(self._name)
        return None if topic is None else topic.topic_id

    def _entered(self) -> Cluster:
        cluster = self._client()
        if cluster is None:
            raise Unreachable("no broker is known yet")
        return cluster


def _error_of(delivery: Delivery) -> BaseException | None:
    """Why a record may not be in the log, when its producer has been closed."""
    if not delivery.done():
        delivery.cancel()
    if delivery.cancelled():
        return ClientError("the producer was closed")
    return delivery.exception()
