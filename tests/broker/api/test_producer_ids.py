"""InitProducerId hands out ids once; coordinators that are not here are named as such."""

import asyncio

import pytest

from penstock.broker.api.find_coordinator import API as FIND_COORDINATOR
from penstock.broker.api.init_producer_id import API as INIT_PRODUCER_ID
from penstock.model.error import ErrorCode
from penstock.wire.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from penstock.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from rig.control import Control, run_with
from rig.memory_disk import MemoryDisk


async def init(
    control: Control, transactional_id: str | None = None, version: int | None = None
) -> InitProducerIdResponse:
    request = InitProducerIdRequest(transactional_id=transactional_id)
    return await control.ask(INIT_PRODUCER_ID, request, InitProducerIdResponse, version=version)


@pytest.mark.parametrize("version", range(INIT_PRODUCER_ID.versions.max + 1))
def test_every_version_gets_an_id_with_epoch_zero(version: int) -> None:
    async def scenario(control: Control) -> None:
        reply = await init(control, version=version)
        assert (reply.error_code, reply.producer_epoch) == (ErrorCode.NONE, 0)
        assert reply.producer_id >= 0

    run_with(MemoryDisk(), scenario)


def test_ids_differ_across_blocks_and_restarts() -> None:
    disk = MemoryDisk()

    async def scenario(control: Control) -> list[int]:
        replies = await asyncio.gather(*(init(control) for _ in range(1100)))
        return [reply.producer_id for reply in replies]

    ids = run_with(disk, scenario) + run_with(disk, scenario)
    assert len(set(ids)) == 2200


def test_a_block_is_asked_for_once_by_all_who_wait() -> None:
    async def scenario(control: Control) -> None:
        before = control.log.end_offset
        await asyncio.gather(*(init(control) for _ in range(50)))
        assert control.log.end_offset == before + 1

    run_with(MemoryDisk(), scenario)


@pytest.mark.parametrize(
    ("transactional_id", "code"),
    [("payments", ErrorCode.NOT_COORDINATOR), ("", ErrorCode.INVALID_REQUEST)],
)
def test_a_transactional_producer_must_find_its_coordinator_first(
    transactional_id: str, code: ErrorCode
) -> None:
    async def scenario(control: Control) -> None:
        reply = await init(control, transactional_id)
        assert (reply.error_code, reply.producer_id) == (code, -1)

    run_with(MemoryDisk(), scenario)


@pytest.mark.parametrize(("producer_id", "epoch"), [(5, -1), (-1, 5)])
def test_half_of_an_old_identity_is_an_invalid_request(producer_id: int, epoch: int) -> None:
    async def scenario(control: Control) -> None:
        request = InitProducerIdRequest(
            transactional_id=None, producer_id=producer_id, producer_epoch=epoch
        )
        reply = await control.ask(INIT_PRODUCER_ID, request, InitProducerIdResponse)
        assert (reply.error_code, reply.producer_id) == (ErrorCode.INVALID_REQUEST, -1)

    run_with(MemoryDisk(), scenario)


@pytest.mark.parametrize("key_type", [-1, 2, 3, 7])
def test_coordinator_of_a_strange_kind_is_an_invalid_request(key_type: int) -> None:
    async def scenario(control: Control) -> None:
        request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=["group"])
        reply = await control.ask(FIND_COORDINATOR, request, FindCoordinatorResponse)
        assert [found.error_code for found in reply.coordinators] == [ErrorCode.INVALID_REQUEST]

    run_with(MemoryDisk(), scenario)


def test_without_a_controller_a_producer_is_told_to_try_again() -> None:
    async def scenario(control: Control) -> None:
        await control.controller.close()
        reply = await init(control)
        assert reply.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    run_with(MemoryDisk(), scenario)


@pytest.mark.parametrize("version", range(1, FIND_COORDINATOR.versions.max + 1))
def test_no_version_of_find_coordinator_is_left_hanging(version: int) -> None:
    async def scenario(control: Control) -> None:
        request = FindCoordinatorRequest(key="one", key_type=1, coordinator_keys=["one", "other"])
        if version < 4:
            request.coordinator_keys = []
        else:
            request.key = ""
        reply = await control.ask(
            FIND_COORDINATOR, request, FindCoordinatorResponse, version=version
        )
        if version < 4:
            assert reply.error_code == ErrorCode.NONE
            assert reply.node_id == 1
        else:
            answers = [(found.key, found.error_code) for found in reply.coordinators]
            assert answers == [("one", ErrorCode.NONE), ("other", ErrorCode.NONE)]

    run_with(MemoryDisk(), scenario)
