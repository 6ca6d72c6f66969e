"""`penstock serve` with a part that signals switch: SIGUSR1 on, SIGUSR2 off.

    python bench/switched_node.py counters serve ...      counters of requests
    python bench/switched_node.py authorizer serve ...    what clients may do is asked, or is not

For `metrics_cost.py` and `security_acls.py`, which compare both in one process: two processes
differ by some hundredths by how their memory happens to lie. Counters are kept by a connection as
it found them when it came; the authorizer counts from the next request on. What else there is of
it, such as the entries, is there in both cases.
"""

import gc
import signal
import sys
from collections.abc import Callable
from types import FrameType

from penstock.broker.network.dispatch import Dispatch
from penstock.broker.request.request_stats import RequestStats
from penstock.cli.main import main
from penstock.security.acl.authorizer import Authorizer

counters: dict[Dispatch, RequestStats] = {}
authorizers: dict[Dispatch, Authorizer] = {}
freeze = gc.freeze


def find_and_freeze() -> None:
    """What is frozen is not found any more."""
    for found in gc.get_objects():
        if isinstance(found, Dispatch):
            if found.stats is not None:
                counters[found] = found.stats
            if found._authorizer is not None:
                authorizers[found] = found._authorizer
    freeze()


def switch_counters(number: int, _: FrameType | None) -> None:
    for dispatch, stats in counters.items():
        dispatch.stats = stats if number == signal.SIGUSR1 else None
        dispatch._services.request_stats = dispatch.stats


def switch_authorizer(number: int, _: FrameType | None) -> None:
    """Dispatch then does what it does in a node that has none, at a listener for log-ins: sessions
    that may end are looked at in either case.
    """
    for dispatch, authorizer in authorizers.items():
        dispatch._authorizer = authorizer if number == signal.SIGUSR1 else None


SWITCHES: dict[str, Callable[[int, FrameType | None], None]] = {
    "counters": switch_counters,
    "authorizer": switch_authorizer,
}


if __name__ == "__main__":
    switch = SWITCHES[sys.argv.pop(1)]
    gc.freeze = find_and_freeze
    signal.signal(signal.SIGUSR1, switch)
    signal.signal(signal.SIGUSR2, switch)
    main()
