"""A pytest plugin: no slow test begins after PENSTOCK_SLOW_UNTIL, in seconds since the epoch.

`.ci/run` sets it, since it has to end in time on a slow machine, too. What is left out is a skip
with its name and the reason.
"""

import os
import time

import pytest

VARIABLE = "PENSTOCK_SLOW_UNTIL"


# Before the fixtures of the test are set up.
@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    until = os.environ.get(VARIABLE)
    if until is None or item.get_closest_marker("slow") is None:
        return
    if time.time() >= float(until):
        # With its name: `-rs` folds skips of one reason into a single line.
        pytest.skip(f"{item.nodeid}: slow, and no time is left: `make test-slow` runs it")
