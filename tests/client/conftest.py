"""A cluster of one broker, for the length of a coroutine."""

from collections.abc import Callable
from typing import Any

import pytest

from penstock.testing import Broker
from rig.client_cluster import Work, run_with_cluster


@pytest.fixture
def with_cluster(penstock: Broker) -> Callable[[Work], Any]:
    return lambda work: run_with_cluster(penstock.bootstrap, work)
