"""A consumer of confluent-kafka. What is read is told first and committed then.

A commit may be refused while the group rebalances; what is given up is committed before it is.
"""

from confluent_kafka import Consumer, KafkaException, TopicPartition

from rig.members.told import Commands, settings, tell, tell_owned, tell_read

QUIET = 2


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
        messages = self.consumer.consume(100, timeout=0.05)
        good = [message for message in messages if message.error() is None]
        if not good:
            return
        tell_read((message.partition(), message.offset()) for message in good)
        self.commit()

    def commit(self, **what: list[TopicPartition]) -> None:
        try:
            self.consumer.commit(asynchronous=False, **what)
        except KafkaException as trouble:
            tell(error=str(trouble))


Member().run()
