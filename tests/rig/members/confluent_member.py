"""A consumer of confluent-kafka. What is read is told first and committed then.

A commit may be refused while the group rebalances; what is given up is committed before it is.
"""

from confluent_kafka import Consumer, KafkaException, TopicPartition

from rig.members.messages import Commands, settings, tell, tell_owned, tell_read

QUIET = 2
COMMIT_EVERY = 100


class Member:
    def __init__(self) -> None:
        given = settings()
        topic = given.pop("topic")
        self.owned: set[int] = set()
        defaults = {"enable.auto.commit": "false", "auto.offset.reset": "earliest"}
        self.consumer = Consumer({**defaults, "log_level": QUIET, **given})
        self.consumer.subscribe(
            [topic], on_assign=self.assigned, on_revoke=self.revoked, on_lost=self.lost
        )

    def assigned(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.owned |= {partition.partition for partition in partitions}
        tell_owned(self.owned)

    def revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        read = [position for position in consumer.position(partitions) if position.offset >= 0]
        if read:
            self.commit(offsets=read)
        self.lost(consumer, partitions)

    def lost(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.owned -= {partition.partition for partition in partitions}
        tell_owned(self.owned)

    def run(self) -> None:
        commands = Commands()
        while not commands.closing:
            if commands.stalled:
                commands.look(wait_seconds=0.1)
                continue
            commands.look()
            self.poll_once()
        self.consumer.close()

    def poll_once(self) -> None:
        """One by one: what is revoked between two of them has been told up to its position."""
        told = 0
        while told < COMMIT_EVERY:
            message = self.consumer.poll(0 if told else 0.05)
            if message is None:
                break
            if message.error() is None:
                partition, offset = message.partition(), message.offset()
                assert partition is not None and offset is not None
                tell_read([(partition, offset)])
                told += 1
        if told:
            self.commit()

    def commit(self, **what: list[TopicPartition]) -> None:
        try:
            self.consumer.commit(asynchronous=False, **what)
        except KafkaException as error:
            tell(error=str(error))


Member().run()
