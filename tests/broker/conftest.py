"""A broker without its network, in a directory of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from rig.services import Broker


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    broker = Broker(tmp_path)
    yield broker
    broker.close()
