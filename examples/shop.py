"""What the examples share: a broker, a topic of orders, a producer, consumers.

Every example takes `--bootstrap HOST:PORT` (or PENSTOCK_BOOTSTRAP), be it Penstock or Apache Kafka;
without one it starts a Penstock of its own for as long as it runs, of as many nodes as `--nodes`
says. `--protocol consumer` makes the groups use the newer protocol (KIP-848) instead of the classic
one. Topics and groups get names of their own, so an example can be run again and again.
"""

import argparse
import os
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.testing import running_broker

PATIENCE_SECONDS = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Shop:
    bootstrap: str
    protocol: str
    mark: str  # ends the names of topics and groups

    def topic(self, name: str, *, partitions: int) -> str:
        full = f"{name}-{self.mark}"
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        admin.create_topics([NewTopic(full, partitions)])[full].result()
        return full

    def send_orders(self, topic: str, numbers: range) -> None:
        """Orders as text, one customer in seven to each partition by key."""
        producer = Producer({"bootstrap.servers": self.bootstrap})
        for number in numbers:
            producer.produce(topic, f"order {number}", key=f"customer {number % 7}")
        producer.flush()
        say(f"{len(numbers)} orders sent")

    def consumer(self, group: str, **settings: object) -> Consumer:
        """Settings by Kafka's names, with underscores for dots. It commits only when told to."""
        given = {name.replace("_", "."): value for name, value in settings.items()}
        return Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": f"{group}-{self.mark}",
                "group.protocol": self.protocol,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                **given,
            }
        )


@contextmanager
def opened(description: str | None) -> Iterator[Shop]:
    """The shop for one example, as the command line asks for it."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bootstrap", default=os.environ.get("PENSTOCK_BOOTSTRAP"))
    parser.add_argument("--nodes", type=int, default=1, help="of the cluster that it starts")
    parser.add_argument("--protocol", choices=("classic", "consumer"), default="classic")
    options = parser.parse_args()
    mark = secrets.token_hex(3)
    if options.bootstrap:
        yield Shop(bootstrap=options.bootstrap, protocol=options.protocol, mark=mark)
        return
    with running_broker(nodes=options.nodes) as broker:
        say(f"no --bootstrap given: a Penstock of our own, at {broker.bootstrap}")
        yield Shop(bootstrap=broker.bootstrap, protocol=options.protocol, mark=mark)


def take(consumer: Consumer, count: int) -> list[Message]:
    """The next records, exactly so many of them."""
    taken: list[Message] = []

    def more() -> bool:
        taken.extend(good(consumer.consume(count - len(taken), 0.1)))
        return len(taken) == count

    wait_until(more, f"{count} records")
    return taken


def good(messages: list[Message]) -> list[Message]:
    for message in messages:
        if message.error():
            raise RuntimeError(message.error())
    return messages


def wait_until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {PATIENCE_SECONDS} s for {what}")


def seen(shop: Shop, topic: str, *, isolation_level: str = "read_committed") -> list[str]:
    """The values that a reader finds in a topic, from its start up to its end of now."""
    return [value for _, value in seen_with_keys(shop, topic, isolation_level=isolation_level)]


def seen_with_keys(
    shop: Shop, topic: str, *, isolation_level: str = "read_committed"
) -> list[tuple[str, str]]:
    consumer = shop.consumer("nobody", isolation_level=isolation_level, enable_partition_eof=True)
    partitions = consumer.list_topics(topic).topics[topic].partitions
    consumer.assign([TopicPartition(topic, index, 0) for index in partitions])
    found, unfinished = [], set(partitions)
    while unfinished:
        message = consumer.poll(PATIENCE_SECONDS)
        if message is None:
            raise TimeoutError(f"waited {PATIENCE_SECONDS} s for the end of {topic}")
        if message.error() is not None:
            assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
            unfinished.discard(message.partition())
        else:
            found.append(((message.key() or b"").decode(), text(message)))
    consumer.close()
    return found


def text(message: Message) -> str:
    value = message.value()
    assert value is not None
    return value.decode()


def committed_total(consumer: Consumer, topic: str, *, partitions: int) -> int:
    """How many records the group has committed of a topic from its very start on."""
    places = [TopicPartition(topic, index) for index in range(partitions)]
    return sum(max(0, place.offset) for place in consumer.committed(places, PATIENCE_SECONDS))


def say(line: str) -> None:
    print(line, flush=True)
