"""Writing at least once: every task's rows are there when it ends, and those of its retries too."""

from dataclasses import dataclass, field

from pyspark.sql.datasource import WriterCommitMessage

from penstock.client.network.cluster import Cluster
from penstock.client.produce.producer import Delivery, Producer, ProducerRules
from penstock.model.identity import TopicPartition
from penstock.spark.sink.task import Work, batch_rules, send_rows, with_rows


@dataclass(frozen=True, slots=True)
class Acked(WriterCommitMessage):
    """There is nothing left to do."""


@dataclass(frozen=True, slots=True)
class Delivering:
    """A producer, and what has become of each batch."""

    producer: Producer
    deliveries: list[Delivery] = field(default_factory=list)

    async def send_batch(self, place: TopicPartition, batch: bytearray) -> None:
        self.deliveries.append(await self.producer.send_batch(place, batch))

    async def flush(self) -> None:
        """Raises why a batch was not delivered."""
        await self.producer.flush()
        for delivery in self.deliveries:
            delivery.result()


async def write_plainly(work: Work) -> Acked:
    await with_rows(work, _deliver)
    return Acked()


async def _deliver(cluster: Cluster, work: Work) -> None:
    rules = ProducerRules(batches=batch_rules(work.options))
    async with Producer(cluster, rules=rules) as producer:
        delivering = Delivering(producer)
        await send_rows(cluster, work, delivering)
        await delivering.flush()
