"""Records of one producer with one key lie in one partition, in the order they were sent."""

from penstock.model.identity import TopicPartition
from penstock.sim.errors import Violation
from penstock.sim.history import History
from penstock.sim.reading import FinalLog


def check_order(history: History, logs: list[FinalLog]) -> None:
    latest: dict[tuple[str, str, bytes], tuple[TopicPartition, int]] = {}
    for log in logs:
        for record in log.records:
            sent = history.see(record)
            line = sent.topic, sent.producer, sent.key
            partition, number = latest.get(line, (log.partition, -1))
            if partition != log.partition:
                raise Violation(
                    "order",
                    f"{sent.key!r} of {sent.producer} is in {partition} and {log.partition}",
                )
            if sent.number <= number:
                raise Violation(
                    "order",
                    f"{log.partition}: {sent.name} lies behind number {number} of the same key",
                )
            latest[line] = log.partition, sent.number
