"""The pytest plugin: a broker as a fixture.

`penstock` is a fresh broker for each test; `penstock_session` is one broker for the whole run, for
suites that keep their topics apart. Settings come from the fixture `penstock_settings`, which a
suite overrides, and from the marker `penstock` of a test; so does the number of nodes, from
`penstock_nodes`. Whoever uses none of it pays for none of
it: see `penstock.testing`.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from penstock import testing

MARKER = (
    "penstock(settings={}, port=None, nodes=1): settings by Kafka's names, the port, and the number"
    " of nodes of the broker"
)
ARGUMENTS = ("settings", "port", "nodes")


@pytest.fixture(scope="session")
def penstock_settings() -> "Mapping[str, testing.SettingValue]":
    """Settings of the brokers below, by Kafka's names: to be overridden in a conftest.py."""
    return {}


@pytest.fixture(scope="session")
def penstock_nodes() -> int:
    """The number of nodes of the brokers below: to be overridden in a conftest.py."""
    return 1


@pytest.fixture
def penstock(
    request: pytest.FixtureRequest,
    penstock_settings: "Mapping[str, testing.SettingValue]",
    penstock_nodes: int,
) -> "Iterator[testing.Broker]":
    """A broker of this test's own, gone with the test; on a free port unless a marker names one."""
    marked = marker_arguments(request.node)
    settings = {**penstock_settings, **marked.get("settings", {})}
    with broker_of_fixture(
        settings=settings, port=marked.get("port"), nodes=marked.get("nodes", penstock_nodes)
    ) as broker:
        yield broker


@pytest.fixture(scope="session")
def penstock_session(
    penstock_settings: "Mapping[str, testing.SettingValue]", penstock_nodes: int
) -> "Iterator[testing.Broker]":
    """One broker for all tests of the run."""
    with broker_of_fixture(settings=penstock_settings, nodes=penstock_nodes) as broker:
        yield broker


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARKER)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """A marker that would have no effect is an error, not silence."""
    given = any(mark.args or mark.kwargs for mark in item.iter_markers("penstock"))
    if given and "penstock" not in getattr(item, "fixturenames", ()):
        fail(
            "the marker is for tests that use the fixture penstock; "
            "penstock_session gets its settings from the fixture penstock_settings"
        )


def marker_arguments(item: pytest.Item) -> dict[str, Any]:
    """Those of all markers of a test: the nearest wins, setting by setting."""
    merged: dict[str, Any] = {}
    for mark in reversed(list(item.iter_markers("penstock"))):
        if mark.args or not set(mark.kwargs) <= set(ARGUMENTS):
            fail(f"the marker takes settings, port and nodes, by name: {MARKER.split(':')[0]}")
        settings = {**merged.get("settings", {}), **mark.kwargs.get("settings", {})}
        merged.update(mark.kwargs, settings=settings)
    return merged


@contextmanager
def broker_of_fixture(
    *,
    settings: "Mapping[str, testing.SettingValue]",
    port: int | None = None,
    nodes: int = 1,
) -> "Iterator[testing.Broker]":
    try:
        with testing.running_broker(settings=settings, port=port, nodes=nodes) as broker:
            yield broker
    except (testing.InvalidSetting, testing.LayoutRefused) as wrong:
        fail(str(wrong))


def fail(reason: str) -> None:
    """One line, without the way to it through this package."""
    pytest.fail(f"penstock: {reason}", pytrace=False)
