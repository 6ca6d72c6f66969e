"""Long work off the loop."""

import asyncio
import os
import signal
from contextlib import aclosing
from pathlib import Path

import psutil
import pytest

from penstock.log.errors import CorruptLog
from penstock.world.child_process import LOWEST_PRIORITY
from penstock.world.disk import RealDisk
from penstock.world.errors import OffloadError
from penstock.world.offload import ChildProcess, Inline
from penstock.world.ports import Offload
from rig.long_work import count_files, fail, priority


def test_child_process_does_the_work_elsewhere() -> None:
    async def scenario() -> int:
        offload = ChildProcess()
        try:
            return await offload.run(os.getpid)
        finally:
            offload.close()

    assert asyncio.run(scenario()) != os.getpid()


def test_inline_does_the_work_here() -> None:
    async def scenario() -> int:
        return await Inline(RealDisk()).run(os.getpid)

    assert asyncio.run(scenario()) == os.getpid()


@pytest.mark.parametrize("here", [True, False])
def test_work_on_disk_stands_still_between_its_items(here: bool, tmp_path: Path) -> None:
    async def scenario() -> None:
        disk = RealDisk()
        offload: Offload = Inline(disk) if here else ChildProcess()
        try:
            async with aclosing(offload.run_on_disk(count_files, str(tmp_path), 9)) as items:
                async for number in items:
                    assert len(disk.names(str(tmp_path))) == number
                    if number == 3:
                        break
            assert [one async for one in offload.run_on_disk(count_files, str(tmp_path), 1)]
            assert disk.exists(f"{tmp_path}/ended")
            with pytest.raises(CorruptLog, match="a/b at byte 7: not a batch") as caught:
                [one async for one in offload.run_on_disk(fail)]
            assert caught.value.position == 7
        finally:
            offload.close()

    asyncio.run(scenario())


def test_child_runs_at_the_lowest_priority_and_ends_with_its_parent() -> None:
    async def scenario() -> None:
        offload = ChildProcess()
        [(process_id, nice)] = [one async for one in offload.run_on_disk(priority)]
        assert nice == LOWEST_PRIORITY
        child = psutil.Process(process_id)
        offload.close()
        child.wait(timeout=120)

    asyncio.run(scenario())


def test_loss_of_the_child_is_told_and_the_next_work_has_another() -> None:
    async def scenario() -> None:
        offload = ChildProcess()
        try:
            [(process_id, _)] = [one async for one in offload.run_on_disk(priority)]
            os.kill(process_id, signal.SIGKILL)
            psutil.Process(process_id).wait(timeout=120)
            with pytest.raises(OffloadError):
                [one async for one in offload.run_on_disk(priority)]
            [(another, _)] = [one async for one in offload.run_on_disk(priority)]
            assert another != process_id
        finally:
            offload.close()

    asyncio.run(scenario())
