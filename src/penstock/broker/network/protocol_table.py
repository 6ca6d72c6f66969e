"""docs/protocol.md: every API of Apache Kafka, with the versions that Kafka and this broker serve.

`make docs` writes it, from the table of handlers and the reasons in `unserved_apis`.
"""

import sys

from penstock.broker.network.api_registry import OF_TELEMETRY, SERVED
from penstock.broker.network.controller_apis import SERVED_BY_CONTROLLERS
from penstock.broker.network.unserved_apis import UNSERVED
from penstock.broker.request.api_table import versions_served
from penstock.wire.api import ApiKey, VersionRange
from penstock.wire.kafka_versions import BROKER_VERSIONS, CONTROLLER_VERSIONS, KAFKA_RELEASE

HEAD = f"""\
# The protocol

`make docs` generates this page; do not edit it.

A client asks a broker for its APIs and their versions, and uses the highest version of each API
that both support. The table lists all APIs of Apache Kafka {KAFKA_RELEASE}: the versions that
Apache Kafka reports in ApiVersions, the versions that Penstock serves, and for each API that
Penstock does not serve the reason, or when it will be added. APIs marked (controller) are served
only on controller listeners, to the other nodes of a cluster.

"""
COLUMNS = ("key", "API", f"Apache Kafka {KAFKA_RELEASE}", "Penstock", "remark")

# Where the versions differ.
NOTES = {
    ApiKey.CREATE_TOPICS: "older clients too",
    ApiKey.DELETE_TOPICS: "older clients too",
    ApiKey.DESCRIBE_CONFIGS: "older clients too",
    ApiKey.INIT_PRODUCER_ID: "version 6 is for two-phase commit (KIP-939), not stable in Kafka yet",
}
# What not every broker serves.
CONDITIONS = {api.key: "by nodes that answer GET /metrics" for api in OF_TELEMETRY}


def protocol_table() -> str:
    brokers, controllers = versions_served(SERVED), versions_served(SERVED_BY_CONTROLLERS)
    rows = [COLUMNS, ("---:", "---", "---", "---", "---")]
    for key in sorted(ApiKey):
        reason = UNSERVED[key].value if key in UNSERVED else NOTES.get(key, CONDITIONS.get(key, ""))
        served = _text(brokers.get(key))
        if key not in brokers and key in controllers:
            served = f"{_text(controllers[key])} (controller)"
        rows.append((str(int(key)), _name(key), _in_kafka(key), served, reason))
    return HEAD + "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _name(key: ApiKey) -> str:
    return "".join(word.capitalize() for word in key.name.split("_"))


def _in_kafka(key: ApiKey) -> str:
    if key in CONTROLLER_VERSIONS:
        return f"{_text(CONTROLLER_VERSIONS[key])} (controller)"
    return _text(BROKER_VERSIONS.get(key))


def _text(versions: VersionRange | None) -> str:
    if versions is None:
        return "no"
    return str(versions.min) if versions.min == versions.max else str(versions)


if __name__ == "__main__":
    sys.stdout.write(protocol_table())
