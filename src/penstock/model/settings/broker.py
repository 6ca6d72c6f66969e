"""The broker settings that have an effect here, with Kafka's names and defaults.

`parse_broker` turns the lines of a `server.properties` into a `BrokerSettings` that cannot be
wrong. Kafka's other names are in `without_effect.py`: they are accepted, kept in `given`, and
listed by `without_effect` so that start-up can name them. Names that no setting has are kept in
`unknown` and named too: Kafka ignores them, since files carry settings of plug-ins. Those that
Kafka had once are in `retired.py`, and kept in `retired`. `with_dynamic` lays what was altered on
the running cluster over what the node was started with.
"""

from collections.abc import Mapping
from dataclasses import field, replace
from types import MappingProxyType
from typing import Any, cast

from penstock.model.identity import NodeId
from penstock.model.lazy_dataclass import dataclass
from penstock.model.sasl import Mechanism
from penstock.model.settings.alerts import ALERT_SETTINGS, AlertSettings
from penstock.model.settings.authorization import (
    AUTHORIZATION_SETTINGS,
    AuthorizationSettings,
)
from penstock.model.settings.config_providers import is_of_config_provider
from penstock.model.settings.delegation_tokens import (
    DELEGATION_TOKEN_SETTINGS,
    DelegationTokenSettings,
)
from penstock.model.settings.groups import GROUP_SETTINGS, GroupSettings
from penstock.model.settings.listener import (
    ANY_HOSTS,
    PROTOCOL_OF_ITS_NAME,
    HostPort,
    ListenAddress,
    SecurityProtocol,
    Voter,
    host_ports,
    listen_addresses,
    listener_names,
    local_address,
    node_number,
    protocol_map,
    voters,
    web_address,
)
from penstock.model.settings.of_listener import (
    MAX_CONNECTIONS,
    SLIPS,
    listener_prefix,
    refuse_unknown_of_listeners,
)
from penstock.model.settings.replication import REPLICATION_SETTINGS, ReplicationSettings
from penstock.model.settings.retired import RetiredSetting, refuse_retired, retired_setting
from penstock.model.settings.sasl import (
    JAAS_CONFIG,
    SASL_SETTINGS,
    SaslSettings,
    is_sasl_of_listener,
    mechanism_prefix,
    parse_sasl,
    sasl_values,
)
from penstock.model.settings.security_classes import refuse_custom_classes
from penstock.model.settings.setting import (
    DOUBLE_MAX,
    INT_MAX,
    LONG_MAX,
    Change,
    InvalidSetting,
    MissingSetting,
    Setting,
    SettingType,
    UnknownSetting,
    any_text,
    boolean,
    declare,
    declared,
    flag,
    fraction,
    int32,
    int64,
    integer,
    items,
    items_of,
    long,
    one_of,
)
from penstock.model.settings.tls import TLS_SETTINGS, TlsSettings, parse_tls
from penstock.model.settings.transactions import TRANSACTION_SETTINGS, TransactionSettings
from penstock.model.settings.without_effect import KNOWN_WITHOUT_EFFECT, refuse_cordoned

T = SettingType
DYNAMIC = Change.CLUSTER_WIDE
CONTROLLER_LISTENER_NEEDED = (
    "process.roles needs the name of the controllers' listener, such as CONTROLLER"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """What one node obeys. Field names are Kafka's, with underscores."""

    # Who this node is, where it listens, where it stores
    node_id: NodeId = declare(
        NodeId(1), T.INT, node_number, "This node's number, different from every other node's."
    )
    broker_rack: str | None = declare(
        None, T.STRING, any_text, "Where this broker stands, to keep replicas apart."
    )
    process_roles: frozenset[str] = declare(
        frozenset({"broker", "controller"}),
        T.LIST,
        items_of("broker", "controller"),
        "Whether this node serves clients, votes on metadata, or both.",
    )
    listeners: tuple[ListenAddress, ...] = declare(
        (ListenAddress(listener="PLAINTEXT", host="", port=9092),),
        T.LIST,
        listen_addresses,
        "Where this node listens, as NAME://host:port; port 0 takes a free one.",
    )
    advertised_listeners: tuple[ListenAddress, ...] | None = declare(
        None,
        T.LIST,
        listen_addresses,
        "What clients are told to connect to, if it differs from listeners.",
    )
    listener_security_protocol_map: Mapping[str, SecurityProtocol] = field(
        default_factory=lambda: PROTOCOL_OF_ITS_NAME,
        metadata={
            "setting": Setting(
                name="",
                type=T.STRING,
                default=",".join(f"{name}:{name}" for name in PROTOCOL_OF_ITS_NAME),
                doc="Which security protocol each listener name speaks.",
                parse_text=protocol_map,
            )
        },
    )
    inter_broker_listener_name: str | None = declare(
        None,
        T.STRING,
        str.upper,
        "The listener over which brokers reach each other.",
    )
    controller_listener_names: tuple[str, ...] = declare(
        (),
        T.LIST,
        listener_names,
        "The listeners of the controller's role; clients are not told of them.",
    )
    security_inter_broker_protocol: str = declare(
        "PLAINTEXT",
        T.STRING,
        one_of(*PROTOCOL_OF_ITS_NAME),
        "Brokers reach each other over the listener of this name, if no other is named.",
    )
    controller_quorum_voters: tuple[Voter, ...] = declare(
        (), T.LIST, voters, "The nodes that vote on metadata, as id@host:port."
    )
    controller_quorum_bootstrap_servers: tuple[HostPort, ...] = declare(
        (),
        T.LIST,
        host_ports,
        "Where controllers are found, as host:port, if the voters are not listed as static ones.",
    )
    controller_quorum_auto_join_enable: bool = declare(
        False,
        T.BOOLEAN,
        boolean,
        "Whether a controller that does not vote asks to be added to the voters in the log.",
    )
    log_dir: tuple[str, ...] = declare(
        ("/tmp/kafka-logs",), T.LIST, items, "Where logs are stored when log.dirs is not given."
    )
    log_dirs: tuple[str, ...] | None = declare(
        None, T.LIST, items, "The directories over which partitions are spread."
    )
    metadata_log_dir: str | None = declare(
        None,
        T.STRING,
        any_text,
        "Where the metadata log is stored; else the first of log.dirs.",
    )
    config_providers: tuple[str, ...] = declare(
        (),
        T.LIST,
        items,
        "Providers of what ${NAME:...} stands for in the file of settings, each with its"
        " config.providers.NAME.class; env, file and directory are there without.",
    )
    penstock_metrics_address: HostPort | None = declare(
        None,
        T.STRING,
        local_address,
        "Where GET /metrics is answered, as host:port or a port of this machine; else nowhere.",
    )
    penstock_tracing_endpoint: str | None = declare(
        None,
        T.STRING,
        web_address,
        "Where traces are sent by OTLP over HTTP, such as http://127.0.0.1:4318/v1/traces; else"
        " nowhere.",
    )
    penstock_tracing_sample: float = declare(
        0.01,
        T.DOUBLE,
        fraction(0, 1),
        "Fraction of all produced batches that is traced; it must be the same on all nodes.",
    )
    telemetry_max_bytes: int = integer(
        1_048_576,
        "How many bytes of metrics a client may push at once, before and after decompression.",
        int32(1),
    )

    # The times of a cluster
    broker_heartbeat_interval_ms: int = integer(
        2000, "How often a broker tells the controller that it lives.", int32(1)
    )
    broker_session_timeout_ms: int = integer(
        9000, "A broker that is silent for so long is fenced.", int32(1)
    )
    initial_broker_registration_timeout_ms: int = integer(
        60_000,
        "How long a broker that starts tries to register before it gives up.",
        int32(1),
    )
    controller_quorum_append_linger_ms: int = integer(
        25,
        "How long the leader of the quorum gathers records before it writes them.",
        int32(0),
        effective=False,
    )
    controller_quorum_election_backoff_max_ms: int = integer(
        1000,
        "The longest time that a voter waits after a lost election before the next one.",
        int32(0),
    )
    controller_quorum_election_timeout_ms: int = integer(
        1000, "How long an election may take before another begins.", int32(1)
    )
    controller_quorum_fetch_timeout_ms: int = integer(
        2000,
        "A voter that could not fetch from the leader for so long asks for an election; a leader"
        " from which no majority has fetched for so long resigns.",
        int32(1),
    )
    controller_quorum_request_timeout_ms: int = integer(
        2000, "How long a request between nodes of the quorum may take.", int32(1)
    )
    controller_quorum_retry_backoff_ms: int = integer(
        20, "How long such a request waits before it is sent again.", int32(0)
    )

    # Connections and requests
    connections_max_idle_ms: int = long(600_000, "An idle connection is closed after this time.")
    fetch_max_bytes: int = integer(
        57_671_680, "The most bytes that one fetch may return.", int32(1024)
    )
    max_connections: int = integer(
        INT_MAX,
        "How many connections this broker accepts in all; each listener may have its own bound.",
        int32(0),
        DYNAMIC,
    )
    max_connections_per_ip: int = integer(
        INT_MAX, "How many connections one address may have.", int32(0), DYNAMIC
    )
    max_incremental_fetch_session_cache_slots: int = integer(
        1000, "How many incremental fetch sessions are kept.", int32(0)
    )
    max_request_partition_size_limit: int = integer(
        2000, "The most partitions that one page of DescribeTopicPartitions holds.", int32(1)
    )
    queued_max_request_bytes: int = long(
        -1, "The most bytes of requests held at once over all connections; -1 is our own bound."
    )
    socket_listen_backlog_size: int = integer(
        50, "How many connections may wait to be accepted.", int32(1)
    )
    socket_receive_buffer_bytes: int = integer(102_400, "SO_RCVBUF; -1 leaves it to the system.")
    socket_request_max_bytes: int = integer(
        104_857_600, "The largest request that is read.", int32(1)
    )
    socket_send_buffer_bytes: int = integer(102_400, "SO_SNDBUF; -1 leaves it to the system.")

    # Topics
    auto_create_topics_enable: bool = flag(
        True, "Whether a topic that a client asks for is created if it does not exist."
    )
    default_replication_factor: int = integer(
        1, "Replicas of a topic whose creator names no number.", int32(1)
    )
    delete_topic_enable: bool = flag(True, "Whether topics can be deleted.")
    num_partitions: int = integer(
        1, "Partitions of a topic whose creator names no number.", int32(1)
    )

    # Idempotent producers
    producer_id_expiration_ms: int = integer(
        86_400_000, "A producer that is silent for so long is forgotten.", int32(1), DYNAMIC
    )
    producer_id_expiration_check_interval_ms: int = declare(
        600_000, T.INT, int32(1), "How often silent producers are looked for.", internal=True
    )

    # Checkpoints, retention
    log_flush_offset_checkpoint_interval_ms: int = integer(
        60_000, "How often it is noted up to where logs are synced.", int32(0)
    )
    log_flush_start_offset_checkpoint_interval_ms: int = integer(
        60_000, "How often it is noted where logs start.", int32(0), effective=False
    )
    log_retention_check_interval_ms: int = long(
        300_000, "How often logs are checked for segments to drop.", int64(1)
    )
    log_initial_task_delay_ms: int = declare(
        30_000, T.LONG, int64(0), "How long after a start that is done first.", internal=True
    )
    metadata_log_max_record_bytes_between_snapshots: int = long(
        20 * 2**20, "The size of the metadata log since a snapshot at which one is made.", int64(1)
    )
    metadata_log_max_snapshot_interval_ms: int = long(
        3_600_000, "How long after a snapshot of the metadata one is made; 0 is never.", int64(0)
    )
    metadata_max_retention_bytes: int = long(
        100 * 2**20, "The size of metadata log and snapshots beyond which older ones are removed."
    )
    metadata_max_retention_ms: int = long(
        604_800_000, "The age of a snapshot of the metadata at which it is removed."
    )
    metadata_log_segment_bytes: int = integer(
        2**30, "The size at which a new segment of the metadata log begins.", int32(8 * 2**20)
    )
    metadata_log_segment_ms: int = long(
        604_800_000, "The age at which a new segment of the metadata log begins."
    )

    # Defaults for topics: topic.py names the setting of each
    compression_type: str = declare(
        "producer",
        T.STRING,
        one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        "Default of the topic setting compression.type.",
        change=DYNAMIC,
    )
    compression_gzip_level: int = integer(
        -1, "Default of the topic setting of that name.", int32(1, 9, also=-1), DYNAMIC
    )
    compression_lz4_level: int = integer(
        9, "Default of the topic setting of that name.", int32(1, 17), DYNAMIC
    )
    compression_zstd_level: int = integer(
        3, "Default of the topic setting of that name.", int32(-131072, 22), DYNAMIC
    )
    log_cleaner_backoff_ms: int = long(
        15_000, "How long compaction rests when no log is dirty enough.", int64(0), DYNAMIC
    )
    log_cleaner_dedupe_buffer_size: int = long(
        128 * 2**20,
        "How much memory compaction may take for the offsets of keys, at 24 bytes a key.",
        int64(),
        DYNAMIC,
    )
    log_cleaner_enable: bool = flag(
        True, "Whether topics with cleanup.policy=compact are compacted."
    )
    log_cleaner_io_buffer_load_factor: float = declare(
        0.9,
        T.DOUBLE,
        fraction(),
        "How full that memory may become: fuller holds more keys and finds them slower.",
        change=DYNAMIC,
    )
    log_cleaner_io_max_bytes_per_second: float = declare(
        DOUBLE_MAX,
        T.DOUBLE,
        fraction(),
        "How many bytes compaction reads and writes in a second, at most.",
        change=DYNAMIC,
    )
    log_cleaner_delete_retention_ms: int = long(
        86_400_000, "Default of delete.retention.ms.", int64(0), DYNAMIC
    )
    log_cleaner_max_compaction_lag_ms: int = long(
        LONG_MAX, "Default of max.compaction.lag.ms.", int64(1), DYNAMIC
    )
    log_cleaner_min_cleanable_ratio: float = declare(
        0.5,
        T.DOUBLE,
        fraction(0, 1),
        "Default of min.cleanable.dirty.ratio.",
        change=DYNAMIC,
    )
    log_cleaner_min_compaction_lag_ms: int = long(
        0, "Default of min.compaction.lag.ms.", int64(0), DYNAMIC
    )
    log_cleanup_policy: frozenset[str] = declare(
        frozenset({"delete"}),
        T.LIST,
        items_of("compact", "delete"),
        "Default of cleanup.policy.",
        change=DYNAMIC,
    )
    log_flush_interval_messages: int = long(
        LONG_MAX, "Default of flush.messages.", int64(1), DYNAMIC
    )
    log_flush_interval_ms: int | None = declare(
        None, T.LONG, int64(), "Default of flush.ms.", change=DYNAMIC
    )
    log_flush_scheduler_interval_ms: int = long(
        LONG_MAX, "How often logs are checked for what is to be synced."
    )
    log_index_interval_bytes: int = integer(
        4096, "Default of index.interval.bytes.", int32(0), DYNAMIC
    )
    log_index_size_max_bytes: int = integer(
        10 * 2**20, "Default of segment.index.bytes.", int32(4), DYNAMIC
    )
    log_local_retention_bytes: int = declare(
        -2,
        T.LONG,
        int64(-2),
        "Default of local.retention.bytes.",
        change=DYNAMIC,
        effective=False,
    )
    log_local_retention_ms: int = declare(
        -2, T.LONG, int64(-2), "Default of local.retention.ms.", change=DYNAMIC, effective=False
    )
    log_message_timestamp_after_max_ms: int = long(
        3_600_000, "Default of message.timestamp.after.max.ms.", int64(0), DYNAMIC
    )
    log_message_timestamp_before_max_ms: int = long(
        LONG_MAX, "Default of message.timestamp.before.max.ms.", int64(0), DYNAMIC
    )
    log_message_timestamp_type: str = declare(
        "CreateTime",
        T.STRING,
        one_of("CreateTime", "LogAppendTime"),
        "Default of message.timestamp.type.",
        change=DYNAMIC,
    )
    log_preallocate: bool = declare(
        False, T.BOOLEAN, boolean, "Default of preallocate.", change=DYNAMIC, effective=False
    )
    log_retention_bytes: int = long(-1, "Default of retention.bytes.", int64(), DYNAMIC)
    log_retention_hours: int = integer(168, "Default of retention.ms, in hours.")
    log_retention_minutes: int | None = declare(
        None,
        T.INT,
        int32(),
        "Default of retention.ms, in minutes; goes before hours.",
    )
    log_retention_ms: int | None = declare(
        None,
        T.LONG,
        int64(),
        "Default of retention.ms; goes before minutes and hours.",
        change=DYNAMIC,
    )
    log_roll_hours: int = integer(168, "Default of segment.ms, in hours.", int32(1))
    log_roll_jitter_hours: int = integer(0, "Default of segment.jitter.ms, in hours.", int32(0))
    log_roll_jitter_ms: int | None = declare(
        None, T.LONG, int64(), "Default of segment.jitter.ms.", change=DYNAMIC
    )
    log_roll_ms: int | None = declare(
        None, T.LONG, int64(), "Default of segment.ms; goes before hours.", change=DYNAMIC
    )
    log_segment_bytes: int = integer(2**30, "Default of segment.bytes.", int32(2**20), DYNAMIC)
    log_segment_delete_delay_ms: int = long(
        60_000, "Default of file.delete.delay.ms.", int64(0), DYNAMIC
    )
    message_max_bytes: int = integer(1_048_588, "Default of max.message.bytes.", int32(0), DYNAMIC)
    min_insync_replicas: int = integer(
        1, "Default of the topic setting of that name.", int32(1), DYNAMIC
    )
    penstock_ack_fsync: bool = flag(False, "Default of the topic setting of that name.", DYNAMIC)
    unclean_leader_election_enable: bool = flag(
        False, "Default of the topic setting of that name.", DYNAMIC
    )

    # Of several brokers: see replication.py
    replication: ReplicationSettings = field(default_factory=ReplicationSettings)

    # The coordinators': see groups.py and transactions.py
    groups: GroupSettings = field(default_factory=GroupSettings)
    transactions: TransactionSettings = field(default_factory=TransactionSettings)

    # Of listeners with SASL: see sasl.py, and `sasl_of` for a listener's own
    sasl: SaslSettings = field(default_factory=SaslSettings)
    # Of listeners that speak TLS: see tls.py, and `tls_of` for a listener's own
    tls: TlsSettings = field(default_factory=TlsSettings)
    # Access control: see authorization.py
    authorization: AuthorizationSettings = field(default_factory=AuthorizationSettings)
    # Delegation tokens: see delegation_tokens.py
    delegation_tokens: DelegationTokenSettings = field(default_factory=DelegationTokenSettings)
    # The alerts that a node evaluates: see alerts.py
    alerts: AlertSettings = field(default_factory=AlertSettings)

    # What the node was started with, as text: DescribeConfigs tells it from defaults.
    # Not shown: secrets are among it.
    given: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    unknown: tuple[str, ...] = ()  # names that were given and that no setting has
    retired: tuple[RetiredSetting, ...] = ()  # those that a setting of the past has

    @property
    def directories(self) -> tuple[str, ...]:
        """Where partitions live: log.dirs, else log.dir."""
        return self.log_dirs if self.log_dirs is not None else self.log_dir

    @property
    def client_listeners(self) -> tuple[ListenAddress, ...]:
        """Those of `listeners` that serve clients and other brokers."""
        return tuple(
            address
            for address in self.listeners
            if address.listener not in self.controller_listener_names
        )

    def protocol_of(self, listener: str) -> SecurityProtocol:
        """What a listener speaks; a controller's listener that the map leaves out is plaintext."""
        return self.listener_security_protocol_map.get(listener, SecurityProtocol.PLAINTEXT)

    def sasl_of(self, listener: str, mechanism: Mechanism | None = None) -> SaslSettings:
        """What a listener obeys, or one mechanism on it: its own settings go before the node's."""
        own = listener_prefix(listener)
        return parse_sasl(sasl_values(self.given, listener_prefix=own, mechanism=mechanism))

    def jaas_of(self, listener: str, mechanism: Mechanism) -> tuple[str, str | None]:
        """The name of the setting that holds users and own login of a listener, and its text."""
        name = mechanism_prefix(listener_prefix(listener), mechanism) + JAAS_CONFIG
        return name, self.given.get(name)

    def max_connections_of(self, listener: str) -> int | None:
        """How many connections a listener accepts, by a setting of its own; None: it has none."""
        name = listener_prefix(listener) + MAX_CONNECTIONS
        text = self.given.get(name)
        if text is None:
            return None
        setting = replace(USED_SETTINGS[MAX_CONNECTIONS], name=name)
        return cast(int, setting.parse(text))

    def tls_of(self, listener: str) -> TlsSettings:
        """What a listener obeys: settings with its name go before those of the node."""
        own = listener_prefix(listener)
        values = {name: self.given[name] for name in TLS_SETTINGS if name in self.given}
        values |= {
            name: self.given[own + name] for name in TLS_SETTINGS if own + name in self.given
        }
        return parse_tls(values)


USED_SETTINGS: Mapping[str, Setting] = MappingProxyType(declared(BrokerSettings))
_PARTS = (
    KNOWN_WITHOUT_EFFECT,
    USED_SETTINGS,
    REPLICATION_SETTINGS,
    GROUP_SETTINGS,
    TRANSACTION_SETTINGS,
    SASL_SETTINGS,
    TLS_SETTINGS,
    AUTHORIZATION_SETTINGS,
    DELEGATION_TOKEN_SETTINGS,
    ALERT_SETTINGS,
)
BROKER_SETTINGS: Mapping[str, Setting] = MappingProxyType(
    dict(sorted((item for part in _PARTS for item in part.items()), key=lambda item: item[0]))
)
assert len(BROKER_SETTINGS) == sum(map(len, _PARTS))


def parse_broker(values: Mapping[str, str]) -> BrokerSettings:
    """What these names and texts stand for; InvalidSetting for the first that is wrong, or whose
    name is that of a setting but for a letter or two.
    """
    refuse_retired(values)
    refuse_custom_classes(values)
    refuse_cordoned(values)
    settings = _parse(values)
    _check(settings)
    refuse_unknown_of_listeners(
        values, listeners=_known_listeners(settings), known=BROKER_SETTINGS.keys()
    )
    return settings


def with_dynamic(
    settings: BrokerSettings, *, cluster: Mapping[str, str], broker: Mapping[str, str]
) -> BrokerSettings:
    """What the node obeys with the cluster's and its own dynamic settings over its static ones.

    Each value was checked when it was set. How they agree with each other is not checked again: a
    node that was restarted with other static settings must still be able to start.
    """
    if not cluster and not broker:
        return settings
    laid_over = _parse({**settings.given, **cluster, **broker})
    return replace(
        laid_over, given=settings.given, unknown=settings.unknown, retired=settings.retired
    )


def without_effect(settings: BrokerSettings) -> tuple[str, ...]:
    """The names that were given and that change nothing here, to be said once at start."""
    return tuple(
        name
        for name in sorted(settings.given)
        if (name not in BROKER_SETTINGS or not BROKER_SETTINGS[name].effective)
        and not _is_of_listener(name, settings)
        and not is_of_config_provider(name)
    )


def _is_of_listener(name: str, settings: BrokerSettings) -> bool:
    """Whether it is a setting that belongs to one of the listeners, or to that of controllers."""
    listeners = [address.listener for address in settings.listeners]
    return any(
        is_sasl_of_listener(name, prefix)
        or (name.startswith(prefix) and _has_own(name.removeprefix(prefix)))
        for prefix in map(listener_prefix, (*listeners, *settings.controller_listener_names))
    )


def _has_own(name: str) -> bool:
    """Whether each listener may have its own value of this setting, apart from those of SASL."""
    return name in TLS_SETTINGS or name == MAX_CONNECTIONS


def _known_listeners(settings: BrokerSettings) -> set[str]:
    """All that a node is told of. It may lack some of them: brokers and controllers share files."""
    names = {address.listener for address in settings.listeners}
    names.update(settings.controller_listener_names)
    if settings.inter_broker_listener_name is not None:
        names.add(settings.inter_broker_listener_name)
    if "security.inter.broker.protocol" in settings.given:
        names.add(settings.security_inter_broker_protocol)
    if "listener.security.protocol.map" in settings.given:
        names.update(settings.listener_security_protocol_map)
    return names


def _parse(values: Mapping[str, str]) -> BrokerSettings:
    parsed: dict[str, Any] = {}
    of_replication: dict[str, Any] = {}
    of_groups: dict[str, Any] = {}
    of_transactions: dict[str, Any] = {}
    of_sasl: dict[str, Any] = {}
    of_tls: dict[str, Any] = {}
    of_authorization: dict[str, Any] = {}
    of_tokens: dict[str, Any] = {}
    of_alerts: dict[str, Any] = {}
    unknown: list[str] = []
    retired: dict[str, RetiredSetting] = {}
    for name, text in values.items():
        setting = BROKER_SETTINGS.get(name)
        gone = retired_setting(name) if setting is None else None
        if gone is not None:
            retired[name] = gone
            continue
        if setting is None and not (name.startswith(SLIPS) or is_of_config_provider(name)):
            refusal = UnknownSetting(kind="broker", name=name, known=BROKER_SETTINGS.keys())
            if refusal.is_likely_typo:
                raise refusal
            unknown.append(name)
            continue
        value = setting.parse(text) if setting is not None else text
        if setting is not None and name in REPLICATION_SETTINGS:
            of_replication[setting.field] = value
        elif setting is not None and name in GROUP_SETTINGS:
            of_groups[setting.field] = value
        elif setting is not None and name in TRANSACTION_SETTINGS:
            of_transactions[setting.field] = value
        elif setting is not None and name in SASL_SETTINGS:
            of_sasl[setting.field] = value
        elif setting is not None and name in TLS_SETTINGS:
            of_tls[setting.field] = value
        elif setting is not None and name in AUTHORIZATION_SETTINGS:
            of_authorization[setting.field] = value
        elif setting is not None and name in DELEGATION_TOKEN_SETTINGS:
            of_tokens[setting.field] = value
        elif setting is not None and name in ALERT_SETTINGS:
            of_alerts[setting.field] = value
        elif setting is not None and name in USED_SETTINGS:
            parsed[setting.field] = value
    if "broker.id" in values and "node.id" not in values and values["broker.id"] != "-1":
        parsed["node_id"] = USED_SETTINGS["node.id"].parse(values["broker.id"])
    groups = GroupSettings(**of_groups, given=frozenset(GROUP_SETTINGS.keys() & values.keys()))
    return BrokerSettings(
        **parsed,
        replication=ReplicationSettings(**of_replication),
        groups=groups,
        transactions=TransactionSettings(**of_transactions),
        sasl=SaslSettings(**of_sasl),
        tls=TlsSettings(**of_tls),
        authorization=AuthorizationSettings(**of_authorization),
        delegation_tokens=DelegationTokenSettings(**of_tokens),
        alerts=AlertSettings(**of_alerts),
        given=MappingProxyType(
            {n: text for n, text in values.items() if n not in unknown and n not in retired}
        ),
        unknown=tuple(sorted(unknown)),
        retired=tuple(retired[name] for name in sorted(retired)),
    )


def _check(settings: BrokerSettings) -> None:
    """What no single setting can know: that listeners, roles and lags agree with each other."""

    def refuse(name: str, expected: str) -> None:
        raise InvalidSetting(name=name, value=settings.given.get(name), expected=expected)

    given_id = settings.given.get("broker.id", "-1")
    if "node.id" in settings.given and given_id not in ("-1", str(settings.node_id)):
        refuse("broker.id", f"It must be the same as node.id, {settings.node_id}, or be left out")
    listening = [address.listener for address in settings.listeners]
    ports = [(address.host, address.port) for address in settings.listeners if address.port != 0]
    if not settings.process_roles:
        refuse("process.roles", "At least one of broker, controller is needed")
    if not settings.listeners:
        refuse("listeners", "At least one listener is needed")
    if len(set(ports)) != len(ports):
        refuse("listeners", "Each listener must have a different port")
    if not settings.directories or "" in settings.directories:
        refuse("log.dirs", "At least one directory is needed, and none may be empty")
    for listener in listening:
        mapped = listener in settings.listener_security_protocol_map
        if not mapped and listener not in settings.controller_listener_names:
            if "process.roles" in settings.given and not settings.controller_listener_names:
                raise MissingSetting("controller.listener.names", CONTROLLER_LISTENER_NEEDED)
            refuse("listeners", f"{listener} must appear in listener.security.protocol.map")
    if "broker" in settings.process_roles and not settings.client_listeners:
        refuse("listeners", "A broker needs a listener that controller.listener.names leaves out")
    for address in settings.advertised_listeners or ():
        if address.listener not in listening:
            refuse("advertised.listeners", f"{address.listener} must be one of listeners")
        if address.host in ANY_HOSTS:
            refuse("advertised.listeners", "A host that clients can reach is needed")
    for listener in listening:
        settings.sasl_of(listener)  # raises for a wrong value of a listener's own setting
    named = settings.inter_broker_listener_name
    if named is not None and named not in listening:
        refuse("inter.broker.listener.name", "It must be the name of one of listeners")
    if settings.log_cleaner_min_compaction_lag_ms > settings.log_cleaner_max_compaction_lag_ms:
        refuse(
            "log.cleaner.min.compaction.lag.ms",
            "Value must be at most log.cleaner.max.compaction.lag.ms",
        )
    for listener in listening:
        settings.tls_of(listener)  # raises for a wrong value of a listener's own setting
        settings.max_connections_of(listener)  # the same
    replication = settings.replication
    for longer, bound_ms in (
        ("replica.socket.timeout.ms", replication.replica_socket_timeout_ms),
        ("replica.lag.time.max.ms", replication.replica_lag_time_max_ms),
    ):
        if replication.replica_fetch_wait_max_ms > bound_ms:
            refuse("replica.fetch.wait.max.ms", f"Value must be at most {longer}, {bound_ms}")
