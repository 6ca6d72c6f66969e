"""Long work off the loop."""

import asyncio
import os

from penstock.world.offload import ChildProcess, Inline


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
        return await Inline().run(os.getpid)

    assert asyncio.run(scenario()) == os.getpid()
