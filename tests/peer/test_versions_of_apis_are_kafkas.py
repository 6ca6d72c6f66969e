"""The table of Kafka's APIs is what the ApiVersions of a running Apache Kafka tells."""

from penstock.wire.api import ApiKey, VersionRange
from penstock.wire.kafka_versions import BROKER_VERSIONS, CONTROLLER_VERSIONS
from penstock.wire.messages.api_versions import ApiVersionsRequest
from rig.apache_kafka.broker import ApacheKafka
from rig.dialogue import Dialogue

# Served only where a plugin takes the metrics.
TELEMETRY = {ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY}


def versions_at(address: str) -> dict[ApiKey, VersionRange]:
    dialogue = Dialogue(address, "of-nobody")
    request = ApiVersionsRequest(client_software_name="table", client_software_version="1")
    reply = dialogue.exchange(request, version=4)
    dialogue.close()
    return {
        ApiKey(one.api_key): VersionRange(one.min_version, one.max_version)
        for one in reply.api_keys
    }


def test_brokers_serve_what_the_table_says(apache_kafka: ApacheKafka) -> None:
    assert versions_at(apache_kafka.bootstrap) == {
        key: versions for key, versions in BROKER_VERSIONS.items() if key not in TELEMETRY
    }


def test_controllers_serve_what_the_table_says(apache_kafka: ApacheKafka) -> None:
    told = versions_at(apache_kafka.controller)
    assert {key: told[key] for key in told.keys() - BROKER_VERSIONS.keys()} == CONTROLLER_VERSIONS
    for key in told.keys() & BROKER_VERSIONS.keys():
        assert told[key] == BROKER_VERSIONS[key], key
