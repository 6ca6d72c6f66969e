"""`penstock serve` with counters of requests that signals switch: SIGUSR1 on, SIGUSR2 off.

For `metrics_cost.py`, which compares both in one process: two processes differ by some hundredths
by how their memory happens to lie. Connections keep what they found when they came.
"""

import gc
import signal
from types import FrameType

from penstock.broker.network.dispatch import Dispatch
from penstock.broker.request.request_stats import RequestStats
from penstock.cli.main import main

dispatches: dict[Dispatch, RequestStats] = {}
freeze = gc.freeze


def find_and_freeze() -> None:
    """What is frozen is not found any more."""
    for found in gc.get_objects():
        if isinstance(found, Dispatch) and found.stats is not None:
            dispatches[found] = found.stats
    freeze()


def switch(number: int, _: FrameType | None) -> None:
    for dispatch, stats in dispatches.items():
        dispatch.stats = stats if number == signal.SIGUSR1 else None
        dispatch._services.request_stats = dispatch.stats


if __name__ == "__main__":
    gc.freeze = find_and_freeze
    signal.signal(signal.SIGUSR1, switch)
    signal.signal(signal.SIGUSR2, switch)
    main()
