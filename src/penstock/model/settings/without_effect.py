"""Broker settings of Apache Kafka 4.3 that are known here and have no effect (yet).

They are accepted, listed by DescribeConfigs, and named at start. One of them is accepted only
empty: `refuse_cordoned`.

One line each: name, type, default (`-` is none, `""` is empty), where it can change without a
restart, for whom, and whether Kafka keeps it to itself. A setting that gains an effect moves to
`BrokerSettings`.
"""

from collections.abc import Mapping
from types import MappingProxyType

from penstock.model.settings.setting import (
    Change,
    InvalidSetting,
    Parse,
    Setting,
    SettingType,
    any_text,
    boolean,
    fraction,
    int32,
    int64,
    items,
)

_PARSE: Mapping[SettingType, Parse] = {
    SettingType.BOOLEAN: boolean,
    SettingType.STRING: any_text,
    SettingType.INT: int32(),
    SettingType.SHORT: int32(-32768, 32767),
    SettingType.LONG: int64(),
    SettingType.DOUBLE: fraction(),
    SettingType.LIST: items,
    SettingType.CLASS: any_text,
    SettingType.PASSWORD: any_text,
}

_TABLE = """
add.partitions.to.txn.retry.backoff.max.ms int 100
add.partitions.to.txn.retry.backoff.ms int 20
alter.config.policy.class.name class -
alter.log.dirs.replication.quota.window.num int 11
alter.log.dirs.replication.quota.window.size.seconds int 1
background.threads int 10 cluster-wide
broker.id int -1
client.quota.callback.class class -
controller.performance.always.log.threshold.ms long 2000 internal
controller.performance.sample.period.ms long 60000 internal
controller.quorum.fetch.max.bytes int 1048576
controller.quorum.fetch.snapshot.max.bytes int 1048576
controller.quota.window.num int 11
controller.quota.window.size.seconds int 1
controller.socket.timeout.ms int 30000
cordoned.log.dirs list "" cluster-wide
create.topic.policy.class.name class -
delete.records.purgatory.purge.interval.requests int 1
early.start.listeners list -
fetch.purgatory.purge.interval.requests int 1000
follower.fetch.last.tiered.offset.enable boolean false cluster-wide
group.consumer.assignment.interval.ms int 1000 cluster-wide
group.consumer.max.assignment.interval.ms int 15000
group.consumer.min.assignment.interval.ms int 0
group.consumer.regex.refresh.interval.ms int 600000 internal
group.coordinator.append.linger.ms int -1
group.coordinator.background.threads int 2
group.coordinator.cached.buffer.max.bytes int 1048588 cluster-wide
group.coordinator.threads int 4
group.share.assignment.interval.ms int 1000 cluster-wide
group.share.assignors list simple
group.share.delivery.count.limit int 5
group.share.heartbeat.interval.ms int 5000
group.share.initialize.retry.interval.ms int 30000 internal
group.share.max.assignment.interval.ms int 15000
group.share.max.delivery.count.limit int 10
group.share.max.heartbeat.interval.ms int 15000
group.share.max.partition.max.record.locks int 4000
group.share.max.record.lock.duration.ms int 60000
group.share.max.session.timeout.ms int 60000
group.share.max.share.sessions int 2000
group.share.max.size int 200
group.share.min.assignment.interval.ms int 0
group.share.min.delivery.count.limit int 2
group.share.min.heartbeat.interval.ms int 5000
group.share.min.partition.max.record.locks int 100
group.share.min.record.lock.duration.ms int 15000
group.share.min.session.timeout.ms int 45000
group.share.partition.max.record.locks int 2000
group.share.persister.class.name string - internal
group.share.record.lock.duration.ms int 30000
group.share.session.timeout.ms int 45000
group.streams.assignment.interval.ms int 1000 cluster-wide
group.streams.heartbeat.interval.ms int 5000
group.streams.initial.rebalance.delay.ms int 3000
group.streams.max.assignment.interval.ms int 15000
group.streams.max.heartbeat.interval.ms int 15000
group.streams.max.session.timeout.ms int 60000
group.streams.max.size int 2147483647
group.streams.max.standby.replicas int 2
group.streams.min.assignment.interval.ms int 0
group.streams.min.heartbeat.interval.ms int 5000
group.streams.min.session.timeout.ms int 45000
group.streams.num.standby.replicas int 0
group.streams.session.timeout.ms int 45000
internal.metadata.delete.delay.millis long 60000 internal
internal.metadata.log.segment.bytes int - internal
internal.metadata.max.batch.size.in.bytes int 8388608 internal
kafka.metrics.polling.interval.secs int 10
kafka.metrics.reporters list ""
log.cleaner.io.buffer.size int 524288 cluster-wide
log.cleaner.threads int 1 cluster-wide
log.dir.failure.timeout.ms long 30000
max.connection.creation.rate int 2147483647 cluster-wide
max.connections.per.ip.overrides string "" cluster-wide
metadata.max.idle.interval.ms int 500
metric.reporters list - cluster-wide
metrics.num.samples int 2
metrics.recording.level string INFO
metrics.sample.window.ms long 30000
num.io.threads int 8 cluster-wide
num.network.threads int 3 cluster-wide
num.recovery.threads.per.data.dir int 2 cluster-wide
num.replica.alter.log.dirs.threads int -
num.replica.fetchers int 1 cluster-wide
offsets.load.buffer.size int 5242880
principal.builder.class class - per-broker
producer.purgatory.purge.interval.requests int 1000
queued.max.requests int 500
quota.window.num int 11
quota.window.size.seconds int 1
remote.fetch.max.wait.ms int 500 cluster-wide
remote.list.offsets.request.timeout.ms long 30000 cluster-wide
remote.log.index.file.cache.total.size.bytes long 1073741824 cluster-wide
remote.log.index.file.cache.ttl.ms long 900000 internal
remote.log.manager.copier.thread.pool.size int 10 cluster-wide
remote.log.manager.copy.max.bytes.per.second long 9223372036854775807 cluster-wide
remote.log.manager.copy.quota.window.num int 11
remote.log.manager.copy.quota.window.size.seconds int 1
remote.log.manager.expiration.thread.pool.size int 10 cluster-wide
remote.log.manager.fetch.max.bytes.per.second long 9223372036854775807 cluster-wide
remote.log.manager.fetch.quota.window.num int 11
remote.log.manager.fetch.quota.window.size.seconds int 1
remote.log.manager.follower.thread.pool.size int 2 cluster-wide
remote.log.manager.task.interval.ms long 30000
remote.log.manager.task.retry.backoff.max.ms long 30000 internal
remote.log.manager.task.retry.backoff.ms long 500 internal
remote.log.manager.task.retry.jitter double 0.2 internal
remote.log.manager.thread.pool.size int 2
remote.log.metadata.custom.metadata.max.bytes int 128
remote.log.metadata.manager.class.name string -
remote.log.metadata.manager.class.path string -
remote.log.metadata.manager.impl.prefix string rlmm.config.
remote.log.metadata.manager.listener.name string -
remote.log.reader.max.pending.tasks int 100
remote.log.reader.threads int 10 cluster-wide
remote.log.storage.manager.class.name string -
remote.log.storage.manager.class.path string -
remote.log.storage.manager.impl.prefix string rsm.config.
remote.log.storage.system.enable boolean false
replica.socket.receive.buffer.bytes int 65536
replication.quota.window.num int 11
replication.quota.window.size.seconds int 1
request.timeout.ms int 30000
sasl.client.callback.handler.class class -
sasl.jaas.config password - per-broker
sasl.kerberos.kinit.cmd string /usr/bin/kinit per-broker
sasl.kerberos.min.time.before.relogin long 60000 per-broker
sasl.kerberos.principal.to.local.rules list DEFAULT per-broker
sasl.kerberos.service.name string - per-broker
sasl.kerberos.ticket.renew.jitter double 0.05 per-broker
sasl.kerberos.ticket.renew.window.factor double 0.8 per-broker
sasl.login.callback.handler.class class -
sasl.login.class class -
sasl.login.connect.timeout.ms int -
sasl.login.read.timeout.ms int -
sasl.login.refresh.buffer.seconds short 300 per-broker
sasl.login.refresh.min.period.seconds short 60 per-broker
sasl.login.refresh.window.factor double 0.8 per-broker
sasl.login.refresh.window.jitter double 0.05 per-broker
sasl.login.retry.backoff.max.ms long 10000
sasl.login.retry.backoff.ms long 100
sasl.oauthbearer.assertion.algorithm string RS256
sasl.oauthbearer.assertion.claim.aud string -
sasl.oauthbearer.assertion.claim.exp.seconds int 300
sasl.oauthbearer.assertion.claim.iss string -
sasl.oauthbearer.assertion.claim.jti.include boolean false
sasl.oauthbearer.assertion.claim.nbf.seconds int 60
sasl.oauthbearer.assertion.claim.sub string -
sasl.oauthbearer.assertion.file string -
sasl.oauthbearer.assertion.private.key.file string -
sasl.oauthbearer.assertion.private.key.passphrase password -
sasl.oauthbearer.assertion.template.file string -
sasl.oauthbearer.client.credentials.client.id string -
sasl.oauthbearer.client.credentials.client.secret password -
sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms long 10000
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms long 100
sasl.oauthbearer.jwt.retriever.class class -
sasl.oauthbearer.jwt.validator.class class -
sasl.oauthbearer.scope string -
sasl.oauthbearer.scope.claim.name string scope
sasl.oauthbearer.token.endpoint.url string -
sasl.server.callback.handler.class class -
security.providers string -
server.max.startup.time.ms long 9223372036854775807 internal
share.coordinator.append.linger.ms int -1
share.coordinator.cached.buffer.max.bytes int 1048588 cluster-wide
share.coordinator.cold.partition.snapshot.interval.ms int 300000 internal
share.coordinator.load.buffer.size int 5242880
share.coordinator.snapshot.update.records.per.snapshot int 500
share.coordinator.state.topic.compression.codec int 0
share.coordinator.state.topic.min.isr short 2
share.coordinator.state.topic.num.partitions int 50
share.coordinator.state.topic.prune.interval.ms int 300000 internal
share.coordinator.state.topic.replication.factor short 3
share.coordinator.state.topic.segment.bytes int 104857600
share.coordinator.threads int 1
share.coordinator.write.timeout.ms int 5000
share.fetch.purgatory.purge.interval.requests int 1000
socket.connection.setup.timeout.max.ms long 30000
socket.connection.setup.timeout.ms long 10000
ssl.allow.dn.changes boolean false
ssl.allow.san.changes boolean false
ssl.engine.factory.class class - per-broker
ssl.keymanager.algorithm string SunX509 per-broker
ssl.protocol string TLSv1.3 per-broker
ssl.provider string - per-broker
ssl.secure.random.implementation string - per-broker
ssl.trustmanager.algorithm string PKIX per-broker
transaction.abort.timed.out.transaction.cleanup.interval.ms int 10000
transaction.state.log.load.buffer.size int 5242880
unclean.leader.election.interval.ms long 300000 internal
unstable.api.versions.enable boolean false internal
unstable.feature.versions.enable boolean false internal
"""


def _setting(line: str) -> Setting:
    name, type_name, default, *marks = line.split()
    setting_type = SettingType[type_name.upper()]
    return Setting(
        name=name,
        type=setting_type,
        default={"-": None, '""': ""}.get(default, default),
        doc="Known from Apache Kafka; without effect here.",
        parse_text=_PARSE[setting_type],
        change=next((change for change in Change if change.value in marks), Change.AT_START),
        effective=False,
        internal="internal" in marks,
    )


KNOWN_WITHOUT_EFFECT: Mapping[str, Setting] = MappingProxyType(
    {setting.name: setting for setting in map(_setting, _TABLE.strip().splitlines())}
)

CORDONED = "cordoned.log.dirs"


def refuse_cordoned(values: Mapping[str, str]) -> None:
    """InvalidSetting for directories that are to get no new partitions (KIP-1066): whoever relies
    on that would find them there when the disk is full, or taken away.
    """
    text = values.get(CORDONED, "").strip()
    if text:
        raise InvalidSetting(
            name=CORDONED,
            value=text,
            expected="New partitions cannot be kept from a directory here: it must be left out",
        )
