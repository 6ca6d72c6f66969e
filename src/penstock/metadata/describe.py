"""The settings of a topic, broker, group or subscription to metrics of clients, and where a value
comes from, as DescribeConfigs shows them.

A value is looked up in this order: set on the topic or group, set on the running broker, set for
all running brokers, given to the broker at its start, Kafka's default. The places where it was
found are its synonyms; the first one counts.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import dropwhile

from penstock.metadata.effective import CLUSTER_DEFAULT, Configured, effective_broker
from penstock.model.configs import ResourceKind, Source
from penstock.model.identity import NodeId
from penstock.model.lazy_dataclass import dataclass
from penstock.model.settings.broker import BROKER_SETTINGS, BrokerSettings
from penstock.model.settings.client_metrics import CLIENT_METRICS_SETTINGS
from penstock.model.settings.setting import Change, Setting, SettingType, items, text_of
from penstock.model.settings.single_group import SINGLE_GROUP_SETTINGS, server_name
from penstock.model.settings.topic import TOPIC_SETTINGS, resolve_topic


@dataclass(frozen=True, slots=True, kw_only=True)
class Synonym:
    name: str
    value: str | None  # None when it is sensitive
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """One setting with its value; `value` is None when there is none or it is sensitive."""

    name: str
    value: str | None
    source: Source
    sensitive: bool
    read_only: bool
    type: SettingType
    doc: str
    synonyms: tuple[Synonym, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Standpoint:
    """The node whose view of the settings is described."""

    metadata: Configured
    static: BrokerSettings
    node_id: NodeId

    @property
    def layers(self) -> tuple[tuple[Mapping[str, str], Source], ...]:
        """The broker's layers of settings; the first one that has a value counts."""
        broker = ResourceKind.BROKER
        return (
            (self.metadata.config(broker, str(self.node_id)), Source.DYNAMIC_BROKER),
            (self.metadata.config(broker, CLUSTER_DEFAULT), Source.DYNAMIC_DEFAULT_BROKER),
            (self.static.given, Source.STATIC_BROKER),
        )


def describe_topic_defaults(standpoint: Standpoint) -> list[Described]:
    """All settings of a topic without overrides, by name: made once for many topics."""
    broker = effective_broker(standpoint.static, standpoint.metadata, standpoint.node_id)
    resolved = resolve_topic({}, broker)
    described = []
    for setting in TOPIC_SETTINGS.values():
        servers = tuple(server.name for server in setting.servers)
        value = text_of(getattr(resolved, setting.field))
        synonyms = _synonyms(servers, standpoint)
        described.append(_described(setting, value, synonyms, read_only=False))
    return described


def describe_topic(
    overrides: Mapping[str, str], defaults: Sequence[Described]
) -> Iterator[Described]:
    """All settings of a topic with these overrides, by name."""
    for default in defaults:
        value = overrides.get(default.name)
        if value is not None:
            own = Synonym(name=default.name, value=value, source=Source.TOPIC)
            yield replace(
                default, value=value, source=own.source, synonyms=(own, *default.synonyms)
            )
        elif not TOPIC_SETTINGS[default.name].internal:
            yield default


def describe_broker(standpoint: Standpoint) -> list[Described]:
    """All settings of the standpoint's node, by name."""
    described = []
    for name, setting in BROKER_SETTINGS.items():
        if setting.internal and not any(name in layer for layer, _ in standpoint.layers):
            continue
        synonyms = _broker_synonyms(name, standpoint)
        value = synonyms[0].value if synonyms else None
        read_only = setting.change == Change.AT_START
        described.append(_described(setting, value, synonyms, read_only=read_only))
    return described


def describe_cluster_default(metadata: Configured) -> list[Described]:
    """Only what was set for all running brokers."""
    described = []
    for name, value in sorted(metadata.config(ResourceKind.BROKER, CLUSTER_DEFAULT).items()):
        setting = BROKER_SETTINGS[name]
        shown = None if setting.sensitive else value
        synonyms = [Synonym(name=name, value=shown, source=Source.DYNAMIC_DEFAULT_BROKER)]
        described.append(_described(setting, value, synonyms, read_only=False))
    return described


def describe_group(standpoint: Standpoint, group_id: str) -> list[Described]:
    """All settings that a group can have of its own, by name, whether or not the group exists."""
    overrides = standpoint.metadata.config(ResourceKind.GROUP, group_id)
    described = []
    for name, setting in SINGLE_GROUP_SETTINGS.items():
        server = server_name(name)
        if server is not None:
            synonyms = _synonyms((server,), standpoint)
        else:
            synonyms = [Synonym(name=name, value=setting.default, source=Source.DEFAULT)]
        if name in overrides:
            own = text_of(setting.parse(overrides[name]))
            synonyms.insert(0, Synonym(name=name, value=own, source=Source.GROUP))
        described.append(_described(setting, synonyms[0].value, synonyms, read_only=False))
    return described


def describe_client_metrics(overrides: Mapping[str, str]) -> list[Described]:
    """All settings of a subscription, by name, whether or not it exists. A default is no synonym,
    as in Apache Kafka.
    """
    described = []
    for name, setting in CLIENT_METRICS_SETTINGS.items():
        value, synonyms = setting.default, []
        if name in overrides:
            value = ",".join(items(overrides[name].strip()))  # as Kafka writes a list
            synonyms = [Synonym(name=name, value=value, source=Source.CLIENT_METRICS)]
        described.append(_described(setting, value, synonyms, read_only=False))
    return described


def _synonyms(names: Sequence[str], standpoint: Standpoint) -> list[Synonym]:
    """Where a value was found under these names; of defaults, only that of the first."""
    return [*_set(names, standpoint), *_defaults(names[:1])]


def _broker_synonyms(name: str, standpoint: Standpoint) -> list[Synonym]:
    """Where the value of a broker setting was found, and what would apply without it: also the
    coarser units of the same setting. A finer unit, which has precedence, has its own entry.
    """
    families = [tuple(s.name for s in setting.servers) for setting in TOPIC_SETTINGS.values()]
    names = next((family for family in families if name in family), (name,))
    found = [*_set(names, standpoint), *_defaults(names)]
    return list(dropwhile(lambda synonym: synonym.name != name, found))


def _set(names: Sequence[str], standpoint: Standpoint) -> Iterator[Synonym]:
    for layer, source in standpoint.layers:
        for name in names:
            if name in layer:
                shown = None if BROKER_SETTINGS[name].sensitive else layer[name]
                yield Synonym(name=name, value=shown, source=source)


def _defaults(names: Sequence[str]) -> Iterator[Synonym]:
    for name in names:
        default = BROKER_SETTINGS[name].default
        if default is not None:
            yield Synonym(name=name, value=default, source=Source.DEFAULT)


def _described(
    setting: Setting, value: str | None, synonyms: list[Synonym], *, read_only: bool
) -> Described:
    return Described(
        name=setting.name,
        value=None if setting.sensitive else value,
        source=synonyms[0].source if synonyms else Source.DEFAULT,
        sensitive=setting.sensitive,
        read_only=read_only,
        type=setting.type,
        doc=setting.doc,
        synonyms=tuple(synonyms),
    )
