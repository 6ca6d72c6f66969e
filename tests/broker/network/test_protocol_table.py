"""docs/protocol.md tells of every API whether it is served, and is what the broker says."""

from pathlib import Path

from penstock.broker.network.api_registry import SERVED
from penstock.broker.network.controller_apis import SERVED_BY_CONTROLLERS
from penstock.broker.network.protocol_table import NOTES, protocol_table
from penstock.broker.network.unserved_apis import UNSERVED, Unserved
from penstock.broker.request.api_table import versions_served
from penstock.wire.api import ApiKey
from penstock.wire.kafka_versions import BROKER_VERSIONS, CONTROLLER_VERSIONS

PAGE = Path(__file__).resolve().parents[3] / "docs" / "protocol.md"


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text("utf-8") == protocol_table(), "run `make docs`"


def test_every_api_is_served_or_has_a_reason_not_to_be() -> None:
    served = versions_served(SERVED).keys() | versions_served(SERVED_BY_CONTROLLERS).keys()
    assert served | UNSERVED.keys() == set(ApiKey)
    both = served & UNSERVED.keys()
    assert not both, f"served, so take them out of UNSERVED: {both}"
    assert set(UNSERVED.values()) == set(Unserved)


def test_what_kafka_serves_nowhere_ended_with_zookeeper() -> None:
    assert not BROKER_VERSIONS.keys() & CONTROLLER_VERSIONS.keys()
    nowhere = set(ApiKey) - BROKER_VERSIONS.keys() - CONTROLLER_VERSIONS.keys()
    assert nowhere == {key for key, reason in UNSERVED.items() if reason is Unserved.ENDED}


def test_versions_that_are_not_kafkas_have_a_note() -> None:
    served = versions_served(SERVED)
    assert {key for key, versions in served.items() if versions != BROKER_VERSIONS[key]} == set(
        NOTES
    )


def test_every_version_that_kafka_serves_of_an_api_is_served() -> None:
    for key, versions in versions_served(SERVED).items():
        assert BROKER_VERSIONS[key].min in versions, key
        assert BROKER_VERSIONS[key].max in versions, key
