"""Carrying out the faults that a seed asks for, at their moments."""

import asyncio
from collections.abc import Callable
from random import Random

from penstock.groups.partitioning import OFFSETS_TOPIC
from penstock.model.identity import METADATA_TOPIC, TopicPartition
from penstock.model.topic_name import TRANSACTION_TOPIC
from penstock.sim.bit_flips import flip_a_bit
from penstock.sim.clock import SimClock
from penstock.sim.history import History
from penstock.sim.host import Crash
from penstock.sim.link import Link
from penstock.sim.scenario import Fault, FaultKind
from penstock.sim.sim_node import SimNode
from penstock.sim.trace import Trace
from penstock.sim.transacting.plan import PREFIX
from penstock.sim.wire import Wire

# A damaged journal is not served: what was acked is neither told nor forgotten.
SPARED = (METADATA_TOPIC, OFFSETS_TOPIC, TRANSACTION_TOPIC)
SPARED_PREFIXES = ("temp", PREFIX)
CALLS_MAX = 60  # how many changes of the disk an armed crash waits for, at most


class Faults:
    def __init__(
        self,
        *,
        node: SimNode,
        wire: Wire,
        clock: SimClock,
        trace: Trace,
        history: History,
        chance: Random,
        crash_client: Callable[[float], None],
    ) -> None:
        self._node = node
        self._wire = wire
        self._clock = clock
        self._trace = trace
        self._history = history
        self._chance = chance
        self._crash_client = crash_client
        self._healthy = wire.delays.us_max, node.host.file_system.sync_us

    async def carry_out(self, faults: tuple[Fault, ...]) -> None:
        for fault in faults:
            await asyncio.sleep(max(0, fault.at_ms - self._clock.monotonic_ms()) / 1000)
            self._trace.note("fault", f"{fault.kind.value} {fault.amount:.3f}")
            await self._strike(fault)

    def heal(self) -> None:
        """The world is well again, and stays so."""
        self._wire.delays.us_max, self._node.host.file_system.sync_us = self._healthy
        self._node.host.file_system.room, self._node.host.file_system.squeeze = None, 0.0
        self._node.host.file_system.syncs_fail = False
        self._node.settle()

    async def _strike(self, fault: Fault) -> None:
        node, file_system, wire = self._node, self._node.host.file_system, self._wire
        calls = round(fault.amount * CALLS_MAX)
        match fault.kind:
            case FaultKind.KILL:
                node.crash(Crash.KILL)
            case FaultKind.POWER_LOSS:
                node.crash(Crash.POWER_LOSS)
            case FaultKind.KILL_IN_A_CALL:
                node.crash_in_a_call(Crash.KILL, calls=calls)
            case FaultKind.POWER_LOSS_IN_A_CALL:
                node.crash_in_a_call(Crash.POWER_LOSS, calls=calls)
            case FaultKind.STOP:
                node.stop()
            case FaultKind.SLOW_DISK:
                file_system.sync_us = (20_000, 20_000 + round(fault.amount * 1_200_000))
            case FaultKind.FULL_DISK:
                file_system.has_failed = True
                if fault.amount < 0.5:
                    file_system.room = round(fault.amount * 4_000)
                else:
                    file_system.squeeze = 0.4
                await asyncio.sleep(0.2 + fault.amount)
                file_system.room, file_system.squeeze = None, 0.0
            case FaultKind.FAILING_SYNC:
                file_system.has_failed = True
                file_system.syncs_fail = True
                await asyncio.sleep(0.3 + fault.amount)
                file_system.syncs_fail = False
            case FaultKind.FLIPPED_BIT:
                self._flip()
            case FaultKind.RESET:
                for link in self._some(wire.live_links()):
                    link.reset()
            case FaultKind.HALF_OPEN:
                for link in self._some(wire.live_links()):
                    link.silence()
            case FaultKind.SLOW_NETWORK:
                wire.delays.us_max = 2_000 + round(fault.amount * 300_000)
            case FaultKind.CLOCK_JUMP:
                self._clock.ahead_ms += round((fault.amount - 0.5) * 7_200_000)
            case FaultKind.CLIENT_CRASH:
                self._crash_client(fault.amount)

    def _some(self, links: list[Link]) -> list[Link]:
        return [link for link in links if self._chance.random() < 0.6]

    def _flip(self) -> None:
        flipped = flip_a_bit(self._node, self._chance, _is_spared)
        if flipped is None:
            return
        history = self._history.of(flipped.partition)
        history.damaged_from = min(history.damaged_from, flipped.cut_offset)
        self._trace.note("fault", str(flipped))


def _is_spared(partition: TopicPartition) -> bool:
    return partition.topic in SPARED or partition.topic.startswith(SPARED_PREFIXES)
