"""docs/settings.md: every setting there is, from where it is declared.

`make docs` writes it; nothing in it is written by hand.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence

from penstock.model.settings.alerts import ALERT_SETTINGS
from penstock.model.settings.authorization import AUTHORIZATION_SETTINGS
from penstock.model.settings.broker import USED_SETTINGS
from penstock.model.settings.client_metrics import CLIENT_METRICS_SETTINGS
from penstock.model.settings.delegation_tokens import DELEGATION_TOKEN_SETTINGS
from penstock.model.settings.groups import GROUP_SETTINGS
from penstock.model.settings.replication import REPLICATION_SETTINGS
from penstock.model.settings.retired import RETIRED
from penstock.model.settings.sasl import SASL_SETTINGS
from penstock.model.settings.setting import Change, Setting
from penstock.model.settings.single_group import SINGLE_GROUP_SETTINGS
from penstock.model.settings.tls import TLS_SETTINGS
from penstock.model.settings.topic import TOPIC_SETTINGS
from penstock.model.settings.transactions import TRANSACTION_SETTINGS
from penstock.model.settings.without_effect import KNOWN_WITHOUT_EFFECT

HEAD = """\
# Settings

`make docs` generates this page; do not edit it.

Settings have the names, types and defaults of Apache Kafka; those that begin with `penstock.` are
additions. A node reads its settings from a `server.properties` (`penstock serve --config FILE`), or
one by one (`--set NAME=VALUE`). `penstock configs describe` shows the values of a running cluster,
and `penstock configs alter` changes those that can be changed there.

A setting is read at start, or it can be changed on a running broker: on each one by itself, or on
all at once too. Settings of topics, of groups and of subscriptions can always be changed.

"""
CHANGES = {
    Change.AT_START: "at start",
    Change.PER_BROKER: "on one broker",
    Change.CLUSTER_WIDE: "on one or all",
}
BROKER_PARTS: Mapping[str, Mapping[str, Setting]] = {
    "Nodes and logs": USED_SETTINGS,
    "Replication": REPLICATION_SETTINGS,
    "Groups and their coordinators": GROUP_SETTINGS,
    "Transactions": TRANSACTION_SETTINGS,
    "TLS": TLS_SETTINGS,
    "SASL": SASL_SETTINGS,
    "Access control": AUTHORIZATION_SETTINGS,
    "Delegation tokens": DELEGATION_TOKEN_SETTINGS,
    "Alerts": ALERT_SETTINGS,
}
CLIENT_METRICS = """\
`kafka-client-metrics` alters, describes, lists and deletes them ([metrics.md](metrics.md)).

"""
NO_EFFECT = """\
Nodes accept these so that existing files work, and name those that were set when they start. Of the
classes that check or log in clients, only those that Apache Kafka itself brings are accepted: no
class is loaded, and to ignore one would let in whom it keeps out. `cordoned.log.dirs` is accepted
only empty: new partitions cannot be kept from a directory.

"""
NO_LONGER = """\
Apache Kafka had these in earlier versions. Nodes name them when they start, with what to use
instead, and refuse those that cannot be ignored safely, such as addresses.

"""


def settings_page() -> str:
    parts = [HEAD, "## Topics\n\n", _topics()]
    for title, settings in BROKER_PARTS.items():
        used = [one for one in settings.values() if one.effective]
        parts += [f"\n## {title}\n\n", _brokers(used)]
    parts += ["\n## A single group\n\n", _of_resource(SINGLE_GROUP_SETTINGS)]
    parts += ["\n## A subscription to metrics of clients\n\n", CLIENT_METRICS]
    parts += [_of_resource(CLIENT_METRICS_SETTINGS)]
    without = [*_without_effect(), *KNOWN_WITHOUT_EFFECT.values()]
    parts += ["\n## Accepted without effect\n\n", NO_EFFECT, _names(without)]
    parts += ["\n## No longer in Apache Kafka\n\n", NO_LONGER, _retired()]
    return "".join(parts)


def _topics() -> str:
    return _table(
        ("setting", "type", "default", "default for all topics", "meaning"),
        (
            (
                f"`{one.name}`",
                one.type.name.lower(),
                _value(one),
                ", ".join(f"`{server.name}`" for server in one.servers) or "-",
                one.doc,
            )
            for one in _sorted(TOPIC_SETTINGS.values())
            if one.effective
        ),
    )


def _brokers(settings: Iterable[Setting]) -> str:
    return _table(
        ("setting", "type", "default", "changes", "meaning"),
        (
            (
                f"`{one.name}`",
                one.type.name.lower(),
                _value(one),
                CHANGES[one.change],
                one.doc,
            )
            for one in _sorted(settings)
        ),
    )


def _of_resource(settings: Mapping[str, Setting]) -> str:
    return _table(
        ("setting", "type", "default", "meaning"),
        (
            (f"`{one.name}`", one.type.name.lower(), _value(one), one.doc)
            for one in _sorted(settings.values())
            if one.effective
        ),
    )


def _without_effect() -> list[Setting]:
    declared = (TOPIC_SETTINGS, *BROKER_PARTS.values(), SINGLE_GROUP_SETTINGS)
    return [one for settings in declared for one in settings.values() if not one.effective]


def _names(settings: Iterable[Setting]) -> str:
    return _table(
        ("setting", "default"),
        ((f"`{one.name}`", _value(one)) for one in _sorted(settings)),
    )


def _retired() -> str:
    return _table(
        ("setting", "not since", "instead"),
        (
            (f"`{one.name}`", one.since, "-" if one.instead is None else f"`{one.instead}`")
            for one in sorted(RETIRED.values(), key=lambda one: one.name)
        ),
    )


def _sorted(settings: Iterable[Setting]) -> list[Setting]:
    return sorted(settings, key=lambda one: one.name)


def _value(setting: Setting) -> str:
    return f"`{setting.default}`" if setting.default else "-"


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join(f"| {' | '.join(map(_cell, line))} |\n" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


if __name__ == "__main__":
    sys.stdout.write(settings_page())
