"""A consumer of kafka-python. What is read is told first and committed then."""

from kafka import ConsumerRebalanceListener, KafkaConsumer
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.errors import KafkaError

from rig.members.messages import Commands, settings, tell, tell_owned, tell_read

# A join that is answered between two polls is lost to the library, and the member never gets on:
# with long polls there is hardly a moment between them. A poll ends as soon as there are records.
POLL_MS = 1000
ASSIGNORS = {
    assignor.name: assignor
    for assignor in (
        RangePartitionAssignor,
        RoundRobinPartitionAssignor,
        CooperativeStickyAssignor,
    )
}


def member_settings(given: dict[str, str]) -> dict[str, object]:
    """kafka-python's names are Kafka's with underscores; numbers are numbers, assignors classes."""
    named: dict[str, object] = {}
    for name, value in given.items():
        named[name.replace(".", "_")] = int(value) if value.isdigit() else value
    strategy = given.get("partition.assignment.strategy")
    if strategy is not None:
        named["partition_assignment_strategy"] = [ASSIGNORS[strategy]]
    return named


class Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # the library has no types
    def __init__(self) -> None:
        self.owned: set[int] = set()

    def on_partitions_revoked(self, revoked: object) -> None:
        self.owned -= {partition.partition for partition in revoked}  # type: ignore[attr-defined]
        tell_owned(self.owned)

    def on_partitions_assigned(self, assigned: object) -> None:
        self.owned |= {partition.partition for partition in assigned}  # type: ignore[attr-defined]
        tell_owned(self.owned)


def run() -> None:
    given = settings()
    topic = given.pop("topic")
    consumer = KafkaConsumer(
        enable_auto_commit=False, auto_offset_reset="earliest", **member_settings(given)
    )
    consumer.subscribe([topic], listener=Listener())
    commands = Commands()
    while not commands.closing:
        if commands.stalled:
            commands.look(wait_seconds=0.1)
            continue
        commands.look()
        batches = consumer.poll(timeout_ms=POLL_MS)
        if batches:
            tell_read((one.partition, one.offset) for batch in batches.values() for one in batch)
            commit(consumer)
    consumer.close()


def commit(consumer: KafkaConsumer) -> None:
    try:
        consumer.commit()
    except KafkaError as error:
        tell(error=str(error))


run()
