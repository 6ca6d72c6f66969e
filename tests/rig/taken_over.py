"""Somebody takes over the transactional id of a task of the sink."""

from collections.abc import Awaitable, Callable

from penstock.client.admin.transactions import fence
from penstock.client.produce.transactional_producer import TransactionalProducer, TransactionRules
from penstock.spark.sink.decision import Prepared
from rig.sink_shell import SinkShell


async def takes_it(shell: SinkShell, row: Prepared) -> None:
    await fence(shell.cluster, row.transactional_id)


async def takes_it_and_writes(shell: SinkShell, row: Prepared) -> None:
    """What the coordinator says of the id afterwards is of this transaction."""
    async with (
        TransactionalProducer(shell.cluster, row.transactional_id) as other,
        other.transaction(),
    ):
        await other.send(shell.topic, b"foreign")


async def takes_it_and_leaves_it_open(shell: SinkShell, row: Prepared) -> None:
    rules = TransactionRules(two_phase=shell.two_phase)
    async with TransactionalProducer(shell.cluster, row.transactional_id, rules=rules) as other:
        await other.begin()
        await other.send(shell.topic, b"foreign")
        await other.prepare()


Takes = Callable[[SinkShell, Prepared], Awaitable[None]]
TAKEN = [takes_it, takes_it_and_writes, takes_it_and_leaves_it_open]
