"""The built-in rules. Those that `ops/prometheus/rules.yml` has too are the same there.

`rules_of` gives the rules with the thresholds that a node's settings ask for, and names those that
it leaves out, with the reason: a figure that nobody knows is never taken for a good one.
"""

from dataclasses import replace
from typing import NamedTuple

from penstock.alerts.rule import LeftOut, Rule, Scope, Severity, Side, Unit
from penstock.model.settings.alerts import AlertSettings

MINUTE_MS = 60_000
DAY_S = 86_400

GROUP_LAG = Rule(
    name="PenstockGroupLagSeconds",
    severity=Severity.WARNING,
    scope=Scope.NODE,
    subject="group and topic",
    means="The first record that the group has not read is older than `penstock.alerts.lag.ms`"
    " allows.",
    action="`penstock groups describe` shows members and lag by partition: add consumers, or see"
    " why they stand still.",
    threshold=300,
    unit=Unit.SECONDS,
    fires_after_ms=MINUTE_MS,
    clears_after_ms=MINUTE_MS,
)
GROUP_WITHOUT_MEMBERS = Rule(
    name="PenstockGroupWithoutMembers",
    severity=Severity.WARNING,
    scope=Scope.NODE,
    subject="group",
    means="The group has no members, and records have waited for it for longer than"
    " `penstock.alerts.unattended.lag.ms` allows. Groups that have read everything are left alone,"
    " and queries of Spark (`spark-*`), which commit without being members:"
    " `PenstockGroupLagSeconds` is about these too.",
    action="Start its consumers, or delete it with `penstock groups delete` if it is not used any"
    " more.",
    threshold=60,
    unit=Unit.SECONDS,
    fires_after_ms=5 * MINUTE_MS,
    clears_after_ms=MINUTE_MS,
)
UNDER_REPLICATED = Rule(
    name="PenstockUnderReplicated",
    severity=Severity.WARNING,
    scope=Scope.NODE,
    subject="",
    means="Partitions that the node leads have replicas that are not in sync: another loss may"
    " leave them without a leader. For some minutes after a restart this is as it should be.",
    action="Start the broker that is missing; if all run, look for a slow disk or network at the"
    " followers.",
    threshold=0,
    fires_after_ms=5 * MINUTE_MS,
    clears_after_ms=MINUTE_MS,
)
UNDER_MIN_IN_SYNC = Rule(
    name="PenstockUnderMinInSync",
    severity=Severity.CRITICAL,
    scope=Scope.NODE,
    subject="",
    means="Partitions that the node leads refuse acks=all: fewer replicas are in sync than"
    " min.insync.replicas asks for.",
    action="Start the brokers that are missing, or give the topic replicas elsewhere with"
    " `penstock partitions reassign`.",
    threshold=0,
    fires_after_ms=MINUTE_MS,
    clears_after_ms=MINUTE_MS,
)
OFFLINE_PARTITIONS = Rule(
    name="PenstockOfflinePartitions",
    severity=Severity.CRITICAL,
    scope=Scope.CLUSTER,
    subject="",
    means="Partitions have no leader: they can be neither written nor read.",
    action="Start the nodes that hold them; `penstock topics describe` names the replicas.",
    threshold=0,
    fires_after_ms=MINUTE_MS,
    clears_after_ms=MINUTE_MS,
)
BROKER_FENCED = Rule(
    name="PenstockBrokerFenced",
    severity=Severity.WARNING,
    scope=Scope.CLUSTER,
    subject="",
    means="Brokers are fenced and lead nothing: the controller has not heard from them for a"
    " session.",
    action="Find it with `penstock cluster describe` and start it again, or drain and unregister"
    " it.",
    threshold=0,
    fires_after_ms=5 * MINUTE_MS,
    clears_after_ms=MINUTE_MS,
)
NO_CONTROLLER = Rule(
    name="PenstockNoActiveController",
    severity=Severity.CRITICAL,
    scope=Scope.NODE,  # when there is none, nobody can speak for the cluster
    subject="",
    means="The node knows of no active controller. Without one nothing is elected, created or"
    " changed.",
    action="Start controllers until a majority of the voters runs; `penstock cluster quorum` shows"
    " them.",
    threshold=0,
    fires_after_ms=MINUTE_MS,
    clears_after_ms=MINUTE_MS,
)
DIRECTORY_OFFLINE = Rule(
    name="PenstockLogDirectoryOffline",
    severity=Severity.CRITICAL,
    scope=Scope.NODE,
    subject="",
    means="Log directories of the node have failed: its replicas there are offline.",
    action="Replace the disk, and start the node again.",
    threshold=0,
    fires_after_ms=0,
    clears_after_ms=0,
)
DISK_FILLING = Rule(
    name="PenstockDiskFilling",
    severity=Severity.WARNING,
    scope=Scope.NODE,
    subject="log directory",
    means="The disk of the directory is fuller than `penstock.alerts.disk.ratio` allows. A full"
    " disk refuses writes.",
    action="Lower the retention of large topics, move partitions away, or add disk; `penstock"
    " cluster log-dirs` shows what is large.",
    threshold=0.8,
    unit=Unit.RATIO,
    fires_after_ms=5 * MINUTE_MS,
    clears_after_ms=5 * MINUTE_MS,
)
TRANSACTION_OPEN = Rule(
    name="PenstockTransactionOpenTooLong",
    severity=Severity.WARNING,
    scope=Scope.NODE,
    subject="",
    means="A transaction that the node coordinates is open for longer than"
    " `penstock.alerts.transaction.ms` allows: readers of committed records wait at its first"
    " record.",
    action="`penstock transactions list` names it. Of a sink of Spark, `penstock transactions"
    " recover` commits what is decided, and `penstock transactions abort --sink` ends the rest, or"
    " says what does; others are ended by `penstock transactions abort`, in two-phase commit only"
    " if their external coordinator has given them up.",
    threshold=900,
    unit=Unit.SECONDS,
    fires_after_ms=0,
    clears_after_ms=0,
)
CERTIFICATE_EXPIRES = Rule(
    name="PenstockCertificateExpires",
    severity=Severity.WARNING,
    scope=Scope.NODE,
    subject="listener",
    means="The certificate of the listener ends in fewer days than"
    " `penstock.alerts.certificate.days`. Clients and other nodes refuse an expired one.",
    action="Write a new certificate to the same file: it is used from the next connection on.",
    threshold=14 * DAY_S,
    unit=Unit.SECONDS,
    side=Side.BELOW,
    fires_after_ms=60 * MINUTE_MS,
    clears_after_ms=0,
)
MESSAGE_RATE = Rule(
    name="PenstockMessageRate",
    severity=Severity.WARNING,
    scope=Scope.NODE,
    subject="",
    means="More records a second are written to the partitions that the node leads than"
    " `penstock.alerts.messages.per.second` says that it is good for. Topics of the system are not"
    " counted.",
    action="Spread leaders with `penstock partitions balance`, or add a node; `penstock partitions"
    " hot` shows where the records go.",
    threshold=0,  # by the setting alone
    unit=Unit.PER_SECOND,
    fires_after_ms=5 * MINUTE_MS,
    clears_after_ms=5 * MINUTE_MS,
)
DEAD_LETTERS = Rule(
    name="PenstockDeadLettersGrow",
    severity=Severity.WARNING,
    scope=Scope.NODE,
    subject="topic",
    means="Records are written to a dead-letter topic, in partitions that the node leads.",
    action="`penstock dlq list` shows the letters with their reasons; mend the cause, then"
    " `penstock dlq replay`.",
    threshold=0,
    fires_after_ms=0,
    clears_after_ms=5 * MINUTE_MS,
)
PRODUCE_ERRORS = Rule(
    name="PenstockProduceErrors",
    severity=Severity.WARNING,
    scope=Scope.NODE,
    subject="",
    means="More than one error came of 100 produce requests to the node in the last five minutes:"
    " batches were refused, or not acknowledged in time. Each partition that fails in a request"
    " counts, whoever is to blame, but for refusals of authorization.",
    action="kafka_network_requestmetrics_errors_total has the codes, and the nodes' logs tell of"
    " acks that failed: see to the replicas, or to the clients.",
    threshold=0.01,
    unit=Unit.RATIO,
    fires_after_ms=5 * MINUTE_MS,
    clears_after_ms=MINUTE_MS,
)
PRODUCE_SLOW = Rule(
    name="PenstockProduceSlow",
    severity=Severity.WARNING,
    scope=Scope.NODE,
    subject="",
    means="Of 100 produce requests to the node one took longer than a second in the last five"
    " minutes, from its arrival to its reply. One request in 64 is timed. Times are compared at the"
    " next bound of the histogram, 1,049 ms.",
    action="kafka_network_requestmetrics has the parts of that time: remotetimems is that of"
    " followers, localtimems that of the leader's CPU and disk.",
    threshold=1000,
    unit=Unit.MILLISECONDS,
    fires_after_ms=10 * MINUTE_MS,
    clears_after_ms=MINUTE_MS,
)
COMPACTION_FAILS = Rule(
    name="PenstockCompactionFails",
    severity=Severity.WARNING,
    scope=Scope.NODE,
    subject="",
    means="The node cannot compact some of its logs: they grow from now on, whatever their keys"
    " are.",
    action="Its log names them and says why, at state=uncleanable: a disk that is full, or damaged"
    " records.",
    threshold=0,
    fires_after_ms=5 * MINUTE_MS,
    clears_after_ms=MINUTE_MS,
)
RULES = (
    GROUP_LAG,
    GROUP_WITHOUT_MEMBERS,
    UNDER_REPLICATED,
    UNDER_MIN_IN_SYNC,
    OFFLINE_PARTITIONS,
    BROKER_FENCED,
    NO_CONTROLLER,
    DIRECTORY_OFFLINE,
    DISK_FILLING,
    TRANSACTION_OPEN,
    CERTIFICATE_EXPIRES,
    MESSAGE_RATE,
    DEAD_LETTERS,
    PRODUCE_ERRORS,
    PRODUCE_SLOW,
    COMPACTION_FAILS,
)


class RuleSet(NamedTuple):
    rules: tuple[Rule, ...]
    left_out: tuple[LeftOut, ...]


def rules_of(settings: AlertSettings) -> RuleSet:
    thresholds: dict[str, float | None] = {
        GROUP_LAG.name: settings.penstock_alerts_lag_ms / 1000,
        GROUP_WITHOUT_MEMBERS.name: settings.penstock_alerts_unattended_lag_ms / 1000,
        DISK_FILLING.name: settings.penstock_alerts_disk_ratio,
        TRANSACTION_OPEN.name: settings.penstock_alerts_transaction_ms / 1000,
        CERTIFICATE_EXPIRES.name: settings.penstock_alerts_certificate_days * DAY_S,
        MESSAGE_RATE.name: settings.penstock_alerts_messages_per_second,
        PRODUCE_ERRORS.name: settings.penstock_alerts_produce_error_ratio,
        PRODUCE_SLOW.name: settings.penstock_alerts_produce_ms,
    }
    fires, clears = settings.penstock_alerts_for_ms, settings.penstock_alerts_clear_ms
    rules = []
    left_out = []
    for rule in RULES:
        threshold = thresholds.get(rule.name, rule.threshold)
        if threshold is None:
            left_out.append(LeftOut(name=rule.name, reason="no capacity is set"))
            continue
        rules.append(
            replace(
                rule,
                threshold=threshold,
                fires_after_ms=rule.fires_after_ms if fires is None else fires,
                clears_after_ms=rule.clears_after_ms if clears is None else clears,
            )
        )
    return RuleSet(tuple(rules), tuple(left_out))
