"""The pytest plugin: a broker as a fixture.

`penstock` is a fresh broker for each test; `penstock_session` is one broker for the whole run, for
suites that keep their topics apart. Whoever uses neither pays for neither: see `penstock.testing`.
"""

from collections.abc import Iterator

import pytest

from penstock import testing


@pytest.fixture
def penstock() -> "Iterator[testing.Broker]":
    """A broker of this test's own, on a free port, gone with the test."""
    with testing.running_broker() as broker:
        yield broker


@pytest.fixture(scope="session")
def penstock_session() -> "Iterator[testing.Broker]":
    """One broker for all tests of the run."""
    with testing.running_broker() as broker:
        yield broker
