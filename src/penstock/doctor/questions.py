"""Questions to a cluster, each within a time of its own and all of them within one."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import TypeVar

from penstock.client.network.cluster import Cluster
from penstock.client.network.errors import ClientError
from penstock.doctor.seen import Seen, Unseen

Result = TypeVar("Result")
Progress = Callable[[str], None]

QUESTION_MS_MAX = 15_000


class Questions:
    def __init__(self, cluster: Cluster, *, timeout_ms: int, progress: Progress) -> None:
        self._clock = cluster.clock
        self._deadline_ms = cluster.clock.monotonic_ms() + timeout_ms
        self._timeout_ms = timeout_ms
        self._progress = progress

    @property
    def left_ms(self) -> int:
        return max(0, self._deadline_ms - self._clock.monotonic_ms())

    async def about(
        self, what: str, work: Coroutine[None, None, Result], missing: Unseen | None = None
    ) -> Seen[Result]:
        """What the work finds; `missing` is why it need not even be begun."""
        if missing is not None:
            work.close()
            return missing
        self._progress(what)
        limit_ms = min(QUESTION_MS_MAX, self.left_ms)
        try:
            async with asyncio.timeout(limit_ms / 1000):
                return await work
        except ClientError as error:
            return Unseen(reason=f"{what}: {one_line(error)}")
        except TimeoutError:
            if self.left_ms == 0:
                return Unseen(reason=f"{what}: not within the {self._timeout_ms / 1000:g} s of all")
            return Unseen(reason=f"{what}: no answer within {limit_ms / 1000:g} s")


def one_line(error: ClientError) -> str:
    return " ".join(str(error).split())
