"""What readers of committed records get is what Apache Kafka would give them.

Transactions of several producers lie in each other's way in one partition. From every offset, as
they go, it is asked how far a reader may read, and which of what it gets was aborted. Apache Kafka
also tells of transactions that begin behind what is read; nobody needs these, and we do not.
"""

from collections.abc import Callable
from random import Random

import pytest

from penstock.records.batch import batches
from penstock.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from rig.dialogue import Dialogue
from rig.transaction_dialogue import COMMITTED, UNCOMMITTED, Producer, TransactionDialogue

STEPS = 40
GENERATIONS = {1: (4, 11), 2: (5, 12)}  # the versions of EndTxn and of Produce


def read(talk: TransactionDialogue, offset: int, *, isolation: int, version: int) -> None:
    """Writes down the offsets that a reader gets, and what it is told about them."""
    wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=2**20)
    request = FetchRequest(
        min_bytes=0,
        isolation_level=isolation,
        topics=[FetchTopic(topic=talk.topic, partitions=[wanted])],
    )
    [told] = talk.dialogue.exchange(request, version=version).responses[0].partitions
    aborted = sorted(
        (talk.name_of(one.producer_id), one.first_offset)
        for one in told.aborted_transactions or ()
        if one.first_offset < told.last_stable_offset
    )
    data = memoryview(told.records or b"")
    found = [(batch.base_offset, batch.is_control) for batch in batches(data)]
    talk.dialogue.answers.append(
        (offset, told.error_code, told.high_watermark, told.last_stable_offset, aborted, found)
    )


def act(talk: TransactionDialogue, producer: Producer, generation: int, random: Random) -> None:
    end_version, produce_version = GENERATIONS[generation]
    match random.choice(["write", "write", "write", "commit", "abort"]):
        case "write":
            if generation == 1:
                talk.add(producer, 0)
            talk.produce(producer, 0, version=produce_version)
        case verb:
            talk.end(producer, commit=verb == "commit", version=end_version)


def interleaved(generation: int, seed: int) -> Callable[[Dialogue], None]:
    def converse(dialogue: Dialogue) -> None:
        random = Random(seed)
        talk = TransactionDialogue(dialogue)
        producers = [talk.producer(f"-{name}") for name in "abc"]
        for step in range(STEPS):
            act(talk, random.choice(producers), generation, random)
            read(talk, 0, isolation=COMMITTED, version=4 + step % 9)
        for offset in range(STEPS):
            for isolation in (COMMITTED, UNCOMMITTED):
                read(talk, offset, isolation=isolation, version=12)
        talk.look(*producers)

    return converse


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize("seed", range(2))
def test_interleaved_transactions_are_read_as_from_apache_kafka(
    generation: int,
    seed: int,
    assert_same_answers: Callable[[Callable[[Dialogue], None]], None],
) -> None:
    assert_same_answers(interleaved(generation, seed))
