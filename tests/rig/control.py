"""A controller with its log and the handlers in front of it, on any disk, without a network."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from typing import Any, TypeVar, cast

from penstock.broker.controller.local_controller import LocalController
from penstock.broker.controller.producer_ids import ProducerIds
from penstock.broker.controller.quorum_driver import sole_voter
from penstock.broker.controller.registration import registration_of
from penstock.broker.coordinators.group_coordinator import GroupCoordinator
from penstock.broker.coordinators.transaction_coordinator import TransactionCoordinator
from penstock.broker.partitions.log_directories import LogDirectories
from penstock.broker.partitions.partitions import Partitions
from penstock.broker.request.api_table import AnyApi
from penstock.broker.request.context import RequestContext
from penstock.broker.request.services import Services
from penstock.log.opening import open_log
from penstock.metadata.effective import effective_broker
from penstock.metadata.image.broker import Endpoint
from penstock.metadata.image.image import Delta, Image
from penstock.model.error import RequestError
from penstock.model.identity import METADATA_TOPIC, METADATA_TOPIC_ID, NodeId, TopicPartition
from penstock.model.settings.broker import parse_broker
from penstock.model.settings.topic import TopicSettings
from penstock.wire.codec import decode_exact, encode
from penstock.wire.definition import Message
from penstock.wire.header import RequestHeader
from penstock.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from penstock.world.ports import Address, Disk
from penstock.world.real import real_world

NODE = NodeId(1)
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
LISTENER = "PLAINTEXT"
M = TypeVar("M", bound=Message)
Result = TypeVar("Result")


class Control:
    """One start of a node's control plane, from `opened` to `closed`."""

    def __init__(self, disk: Disk, *, path: str = "/data", **settings: str) -> None:
        self.world = replace(real_world(inline=True), disk=disk)
        self.settings = parse_broker(
            {name.replace("_", "."): value for name, value in settings.items()}
        )
        self.deltas: list[Delta] = []
        self._running: asyncio.Task[None] | None = None
        directory = f"{path}/{METADATA_TOPIC}-0"
        disk.make_directory(directory)
        self.log = open_log(
            disk=disk,
            directory=directory,
            partition=TopicPartition(METADATA_TOPIC, 0),
            topic_id=METADATA_TOPIC_ID,
            settings=TopicSettings(),
            now_ms=self.world.clock.now_ms(),
        )
        self.controller = LocalController(
            log=self.log,
            world=self.world,
            member=sole_voter(NODE, directory_id=b"d" * 16, cluster_id=CLUSTER_ID),
            settings=self.settings,
            publish=self._publish,
        )
        partitions = Partitions(  # none is led here
            directories=LogDirectories(),
            node_id=NODE,
            settings=self.settings,
            disk=disk,
            clock=self.world.clock,
        )
        producer_ids = ProducerIds(
            controller=self.controller,
            node_id=NODE,
            broker_epoch=lambda: self.services.image.brokers[NODE].epoch,
        )
        self.services = Services(
            node_id=NODE,
            cluster_id=CLUSTER_ID,
            settings=self.settings,
            world=self.world,
            image=Image(),
            endpoints=(),
            controller=self.controller,
            partitions=partitions,
            groups=GroupCoordinator(
                node_id=NODE,
                world=self.world,
                partitions=partitions,
                controller=self.controller,
                settings=self.settings.groups,
            ),
            transactions=TransactionCoordinator(
                world=self.world,
                partitions=partitions,
                controller=self.controller,
                producer_ids=producer_ids,
                write_to_offsets=lambda index, marker: self.services.groups.write_marker(
                    index, marker
                ),
                settings=self.settings.transactions,
                node_id=NODE,
                links=None,
            ),
            producer_ids=producer_ids,
            fetch_sessions=cast(Any, None),
            served={},
            local=self.controller,
            directory_moves=cast(Any, None),
        )

    @property
    def image(self) -> Image:
        return self.services.image

    async def start(self) -> None:
        """As a node does it, up to the moment when clients may come."""
        self.controller.open()
        self._running = asyncio.get_running_loop().create_task(self.controller.run())
        registered = await self._unless_ended(
            self.controller.ask(
                registration_of(
                    node_id=NODE,
                    cluster_id=CLUSTER_ID,
                    incarnation=self.world.entropy.random_bytes(16),
                    rack=None,
                    endpoints=(Endpoint(listener=LISTENER, host="localhost", port=9092),),
                    directories=(b"directory-number",),
                ),
            )
        )
        epoch = registered.broker_epoch
        unfenced = await self._unless_ended(
            self.controller.ask(
                BrokerHeartbeatRequest(
                    broker_id=NODE, broker_epoch=epoch, current_metadata_offset=epoch
                )
            )
        )
        assert not unfenced.is_fenced, unfenced

    async def stop(self) -> None:
        await self.controller.close()
        await self.sever()
        self.log.close()

    async def sever(self) -> None:
        """Ends the tasks, and tidies nothing up: all that a crash leaves to do."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)

    async def ask(
        self,
        api: AnyApi,
        request: Message,
        answer: type[M],
        *,
        version: int | None = None,
        listener: str = LISTENER,
    ) -> M:
        """Through the codec both ways and through `refuse`, as dispatch does it."""
        version = api.versions.max if version is None else version
        assert version in api.versions, version
        frame = memoryview(bytearray(encode(request, version)))
        context = RequestContext(
            header=RequestHeader(
                api_key=api.key, api_version=version, correlation_id=7, client_id="test"
            ),
            listener=listener,
            peer=Address(host="127.0.0.1", port=1),
            received_ms=self.world.clock.monotonic_ms(),
        )
        received = decode_exact(api.request, version, frame)
        try:
            response = api.handle(self.services, received, context)
            if not isinstance(response, Message):
                response = await self._unless_ended(cast(Awaitable[Message], response))
        except RequestError as error:
            response = api.refuse(received, error.code, error.message)
        return decode_exact(answer, version, memoryview(encode(response, version)))

    async def _unless_ended(self, answer: Awaitable[Result]) -> Result:
        """The answer, or what ended the controller while it was awaited."""
        assert self._running is not None
        waiting = asyncio.ensure_future(answer)
        await asyncio.wait({waiting, self._running}, return_when=asyncio.FIRST_COMPLETED)
        if not waiting.done():
            waiting.cancel()
            self._running.result()
        return waiting.result()

    def _publish(self, delta: Delta, image: Image) -> None:
        image.check()
        self.deltas.append(delta)
        self.services.image = image
        self.services.settings = effective_broker(self.settings, image, NODE)
        self.services.groups.apply(delta, image, self.services.settings.groups)
        self.services.transactions.apply(delta, image, self.services.settings.transactions)


async def until(condition: Callable[[], bool]) -> None:
    """Lets other tasks run until something holds."""
    for _ in range(100_000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it did not become true")


def run_with(
    disk: Disk,
    scenario: Callable[[Control], Coroutine[Any, Any, Result]],
    *,
    path: str = "/data",
    **settings: str,
) -> Result:
    """Starts a control plane on the disk, runs the scenario, stops it."""

    async def whole() -> Result:
        control = Control(disk, path=path, **settings)
        try:
            await control.start()
            result = await scenario(control)
            await control.stop()
        finally:
            await control.sever()
        return result

    return asyncio.run(whole())
