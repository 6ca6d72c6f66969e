"""A consumer of aiokafka. What is read is told first and committed then.

A commit may be refused while the group rebalances; what is given up is committed before it is.
"""

import asyncio

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.errors import KafkaError

from rig.members.messages import Commands, settings, tell, tell_owned, tell_read

ASSIGNORS = {
    assignor.name: assignor
    for assignor in (
        RangePartitionAssignor,
        RoundRobinPartitionAssignor,
    )
}


def member_settings(given: dict[str, str]) -> dict[str, object]:
    """aiokafka's names are Kafka's with underscores; numbers are numbers, assignors are classes."""
    named: dict[str, object] = {}
    for name, value in given.items():
        named[name.replace(".", "_")] = int(value) if value.isdigit() else value
    strategy = given.get("partition.assignment.strategy")
    if strategy is not None:
        named["partition_assignment_strategy"] = [ASSIGNORS[strategy]]
    return named


class Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # the library has no types
    def __init__(self, consumer: AIOKafkaConsumer) -> None:
        self.consumer = consumer

    async def on_partitions_revoked(self, revoked: object) -> None:
        if revoked:
            await commit(self.consumer)
        tell_owned(())

    async def on_partitions_assigned(self, assigned: object) -> None:
        tell_owned(partition.partition for partition in assigned)  # type: ignore[attr-defined]


async def run() -> None:
    given = settings()
    topic = given.pop("topic")
    consumer = AIOKafkaConsumer(
        enable_auto_commit=False, auto_offset_reset="earliest", **member_settings(given)
    )
    consumer.subscribe([topic], listener=Listener(consumer))
    await consumer.start()
    commands = Commands()
    while not commands.closing:
        commands.look()
        if commands.stalled:
            await asyncio.sleep(0.05)
            continue
        batches = await consumer.getmany(timeout_ms=50)
        if batches:
            tell_read((one.partition, one.offset) for batch in batches.values() for one in batch)
            await commit(consumer)
    await consumer.stop()


async def commit(consumer: AIOKafkaConsumer) -> None:
    try:
        await consumer.commit()
    except KafkaError as error:
        tell(error=str(error))


asyncio.run(run())
