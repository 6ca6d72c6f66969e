"""The shards of one coordinator that this broker leads, by partition of its topic, and their time.

`follow` keeps them in step with the metadata: a partition that this broker leads becomes a shard,
anew in each leader epoch; one that it leads no more ends. `run` loads shards and keeps their time.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Generic, Protocol, TypeVar

from penstock.broker.controller.broker_lease import BrokerLease
from penstock.broker.coordinators.led_host import LedHost, Stage
from penstock.broker.partitions.partitions import Partitions
from penstock.groups.partitioning import partition_of
from penstock.log.errors import CorruptData
from penstock.metadata.image.image import Image
from penstock.model.error import ErrorCode, RequestError
from penstock.replication.partition import Partition
from penstock.world.errors import DiskError
from penstock.world.ports import Clock
from penstock.world.tasks import TaskGroup

RETRY_SECONDS = 1.0
STEPS_PER_TURN = 100  # of one shard, before the others have their turn


class Led(Protocol):
    """A shard on its partition."""

    @property
    def host(self) -> LedHost[Any]: ...


LedKind = TypeVar("LedKind", bound=Led)


class LedShards(Generic[LedKind]):
    """Kept in the order of their partitions. `lead` makes a shard, which is loaded already where
    its partition is empty; `load` loads one; `keep_time` does one thing that is due, if any is.
    """

    def __init__(
        self,
        topic: str,
        *,
        partitions: Partitions,
        clock: Clock,
        lead: Callable[[Partition], LedKind],
        load: Callable[[LedKind], Awaitable[None]],
        keep_time: Callable[[LedKind], bool],
    ) -> None:
        self._topic = topic
        self._partitions = partitions
        self._clock = clock
        self._lead = lead
        self._load = load
        self._keep_time_once = keep_time
        self._image = Image()
        self._by_partition: dict[int, LedKind] = {}
        self._to_load = asyncio.Event()
        self._sooner = asyncio.Event()
        self._wake_ms: int | None = None  # when the next look at deadlines is due

    def __iter__(self) -> Iterator[LedKind]:
        """Those of all stages, as of now."""
        return iter(tuple(self._by_partition.values()))

    def __len__(self) -> int:
        return len(self._by_partition)

    def check(self) -> None:
        for led in self:
            led.host.check()

    def index_of(self, key: str) -> int:
        """The partition that a key belongs to. RequestError while there is no topic."""
        topic = self._image.topics_by_name.get(self._topic)
        if topic is None:
            raise RequestError(ErrorCode.NOT_COORDINATOR, f"there is no {self._topic} yet")
        return partition_of(key, partition_count=len(topic.partitions))

    def find(self, key: str) -> LedKind:
        """The shard of a key. RequestError when this broker does not coordinate it, or not yet."""
        return self.at(self.index_of(key))

    def at(self, index: int) -> LedKind:
        """The shard of a partition, if it serves; else RequestError."""
        led = self._by_partition.get(index)
        if led is None or led.host.stage is Stage.ENDED:
            raise RequestError(ErrorCode.NOT_COORDINATOR, "another broker coordinates it")
        require_loaded(led.host)
        return led

    def follow(self, image: Image) -> None:
        """The topic may have been made, changed or deleted; the partitions have followed that."""
        self._image = image
        topic = image.topics_by_name.get(self._topic)
        led: dict[int, LedKind] = {}
        for index in range(0 if topic is None else len(topic.partitions)):
            partition = self._partitions.find(self._topic, index)
            if not isinstance(partition, Partition):
                continue
            known = self._by_partition.get(index)
            if (
                known is not None
                and known.host.partition is partition
                and known.host.stage is not Stage.ENDED
            ):
                led[index] = known
            else:
                led[index] = self._lead(partition)
        for index, shard in self._by_partition.items():
            if led.get(index) is not shard:
                shard.host.end()
        self._by_partition = led
        self._to_load.set()
        for shard in led.values():
            self.wake_for(shard)

    def close(self) -> None:
        """The node stops: whoever waits is told to look for another coordinator."""
        for led in self:
            led.host.end()
        self._by_partition = {}

    async def run(self) -> None:
        """Loads shards and keeps their time until cancelled."""
        async with TaskGroup() as tasks:
            tasks.start(self._keep_loading())
            tasks.start(self._keep_time())

    def wake_for(self, led: LedKind) -> None:
        """The shard's next deadline may be sooner than before."""
        next_ms = led.host.next_ms()
        if next_ms is not None and (self._wake_ms is None or next_ms < self._wake_ms):
            self._sooner.set()

    def look_again(self) -> None:
        """Something may be due that no deadline tells of."""
        self._sooner.set()

    async def _keep_loading(self) -> None:
        while True:
            await self._to_load.wait()
            self._to_load.clear()
            for led in self:
                if led.host.stage is Stage.LOADING:
                    if not await self._load_readable(led):
                        await asyncio.sleep(RETRY_SECONDS)
                        self._to_load.set()
                    self.wake_for(led)

    async def _load_readable(self, led: LedKind) -> bool:
        """A journal that cannot be read is one shard's trouble. False where only room lacked, such
        as descriptors: the shard is to be loaded later.
        """
        partition = led.host.partition
        try:
            await self._load(led)
        except CorruptData as damage:
            self._partitions.damage_found(partition, damage)
            led.host.end(Stage.UNREADABLE)
        except DiskError as error:
            self._partitions.append_failed(partition, error)
            return not error.full
        return True

    async def _keep_time(self) -> None:
        while True:
            self._sooner.clear()  # first: a shard may open after its turn of this round
            for led in self:
                await self._keep_time_of(led)
            nexts = [at for led in self if (at := led.host.next_ms()) is not None]
            self._wake_ms = min(nexts, default=None)
            wait_ms = None
            if self._wake_ms is not None:
                wait_ms = max(self._wake_ms - self._clock.monotonic_ms(), 1)
            try:
                async with asyncio.timeout(None if wait_ms is None else wait_ms / 1000):
                    await self._sooner.wait()
            except TimeoutError:
                continue

    async def _keep_time_of(self, led: LedKind) -> None:
        """What is left over is due at once, in the next round."""
        for _ in range(STEPS_PER_TURN):
            if not self._keep_time_once(led):
                return
            await asyncio.sleep(0)


def require_loaded(host: LedHost[Any]) -> None:
    """RequestError while nothing can be decided."""
    if host.stage is Stage.LOADING:
        raise RequestError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "it is being loaded")
    if host.stage is not Stage.LOADED:
        raise RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "it cannot be read")


def require_lease(
    lease: BrokerLease, clock: Clock, *, code: ErrorCode = ErrorCode.NOT_COORDINATOR
) -> None:
    """RequestError while another broker may coordinate what this one leads by its metadata."""
    if not lease.is_valid(clock.monotonic_ms()):
        raise RequestError(code, "no controller has confirmed this broker lately")
