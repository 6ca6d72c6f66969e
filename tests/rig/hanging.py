"""A transaction that hangs, made as it comes about in the wild.

A batch of a producer of generation 1 is late: its transaction has ended when it arrives. Brokers
that verify with the coordinator refuse it (KIP-890). Those that do not, as this one while it is
told not to, take it for the beginning of another one, which nobody is ever going to end.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from penstock.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from rig.dialogue import Dialogue
from rig.transaction_dialogue import Producer, TransactionDialogue

VERIFICATION = "transaction.partition.verification.enable"
BROKER, EVERY_BROKER = 4, ""
SET, DELETE = 0, 1


@contextmanager
def talk_with(bootstrap: str, topic: str) -> Iterator[TransactionDialogue]:
    """About a topic of two partitions, made for it, that keeps records of any age."""
    dialogue = Dialogue(bootstrap, topic)
    dialogue.create_topic(partitions=2, retention_ms="-1")
    yield TransactionDialogue(dialogue, creates=False)
    dialogue.close()


def leave_hanging(
    talk: TransactionDialogue, *, partition: int = 0, is_known: bool = True
) -> Producer:
    """One record of a transaction that hangs; the producer's last one was committed. If it is not
    known, the coordinator has another producer id.
    """
    producer = talk.producer("-late")
    talk.add(producer, partition)
    talk.end(producer, commit=True, version=4)
    if not is_known:
        producer = producer.copy(producer_id=producer.producer_id + 1_000_000)
    _alter(talk, SET, "false")
    try:
        answer = talk.produce(producer, partition, version=11)
    finally:
        _alter(talk, DELETE, None)
    [told] = answer.responses[0].partition_responses
    assert told.error_code == 0, told
    return producer


def _alter(talk: TransactionDialogue, operation: int, value: str | None) -> None:
    change = AlterableConfig(name=VERIFICATION, config_operation=operation, value=value)
    everywhere = AlterConfigsResource(
        resource_type=BROKER, resource_name=EVERY_BROKER, configs=[change]
    )
    request = IncrementalAlterConfigsRequest(resources=[everywhere])
    [told] = talk.dialogue.exchange(request, version=1).responses
    assert told.error_code == 0, told
    talk.dialogue.settle()
