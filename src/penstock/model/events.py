"""The events of a node's log: their names, levels and fields, and what an operator does about each.

Code that logs one names it here (`world/event_log.tell`); `docs/logs.md` has the same table. What
is logged without a name is a note: its fields are those of its text.

subject   the field that says whom an event is about. Of one event and one subject only so many
          lines are written in a time (`world/event_limit`)
"""

from enum import IntEnum

from penstock.model.lazy_dataclass import dataclass


class Level(IntEnum):
    """As the standard library numbers them."""

    DEBUG = 10
    INFO = 20
    WARNING = 30
    ERROR = 40
    CRITICAL = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    name: str
    level: Level
    says: str  # the first words of the line
    fields: tuple[str, ...]  # some may be left out where they mean nothing
    advice: str
    subject: str | None = None
    is_limited: bool = True


EVENTS: dict[str, Event] = {}


def event(
    name: str,
    level: Level,
    says: str,
    fields: str,
    advice: str,
    *,
    subject: str | None = None,
    is_limited: bool = True,
) -> Event:
    """Declares an event; `fields` are separated by spaces."""
    made = Event(
        name=name,
        level=level,
        says=says,
        fields=tuple(fields.split()),
        advice=advice,
        subject=subject,
        is_limited=is_limited,
    )
    assert name not in EVENTS, name
    assert subject is None or subject in made.fields, name
    EVENTS[name] = made
    return made


NOTHING = "Nothing."

# The node

NODE_STARTING = event("node.starting", Level.INFO, "node starting", "node_id pid", NOTHING)
NODE_READY = event("node.ready", Level.INFO, "node ready", "node_id cluster_id listeners", NOTHING)
NODE_STOPPING = event("node.stopping", Level.INFO, "node stopping", "node_id reason", NOTHING)
NODE_STOPPED = event("node.stopped", Level.INFO, "node stopped", "node_id", NOTHING)
NODE_FAILED = event(
    "node.failed",
    Level.CRITICAL,
    "node stopped",
    "reason",
    "Mend what the reason names, such as a disk, and start the node again. A traceback is a fault"
    " of Penstock: report it.",
)

# The quorum and the controller

QUORUM_ROLE = event(
    "quorum.role_changed",
    Level.INFO,
    "quorum",
    "role epoch leader",
    "Nothing, unless it happens again and again: then look at the network between the controllers"
    " and at their disks.",
)
CONTROLLER_ACTIVE = event(
    "controller.active", Level.INFO, "controller active", "node_id epoch brokers", NOTHING
)
BROKER_REGISTERED = event(
    "broker.registered",
    Level.INFO,
    "registration of a broker",
    "broker broker_epoch previous_epoch",
    NOTHING,
    subject="broker",
)
BROKER_GONE = event(
    "broker.gone",
    Level.WARNING,
    "broker gone",
    "broker broker_epoch reason",
    "The controller is about to fence it: see broker.fenced. Without that line soon after, other"
    " brokers in its in-sync sets are silent, too: it is fenced when they are heard from, or their"
    " sessions have ended. Or the quorum could not store the decision; look at the disks of the"
    " controllers.",
    subject="broker",
)
BROKER_FENCED = event(
    "broker.fenced",
    Level.WARNING,
    "broker fenced",
    "broker broker_epoch reason",
    "By reason. controlled_shutdown: nothing. connection_refused: its process has ended; read its"
    " log, and start it if it was not started again already. session_expired: it was silent for"
    " broker.session.timeout.ms; look at its load, its disk and the network. restarted: nothing,"
    " its next process is about to register.",
    subject="broker",
)
BROKER_UNFENCED = event(
    "broker.unfenced",
    Level.INFO,
    "broker unfenced",
    "broker broker_epoch",
    NOTHING,
    subject="broker",
)
BROKER_SHUTS_DOWN = event(
    "broker.shutting_down",
    Level.INFO,
    "broker shuts down",
    "broker broker_epoch",
    NOTHING,
    subject="broker",
)

# Partitions: logged by the active controller, once the quorum has committed the change

LEADER_CHANGED = event(
    "partition.leader_changed",
    Level.INFO,
    "partition leader changed",
    "partition old_leader leader leader_epoch isr reason broker",
    "Look at the reason, and at broker.fenced of the broker that it names.",
    subject="partition",
)
UNCLEAN_ELECTION = event(
    "partition.unclean_election",
    Level.WARNING,
    "partition leader elected unclean",
    "partition old_leader leader leader_epoch isr reason broker",
    "broker_unfenced: the last leader leads again after a crash, and lacks at most what was not on"
    " its disk. Any other reason: the new leader was not in sync, and records may be lost; compare"
    " what consumers have with what producers sent. unclean.leader.election.enable=false prevents"
    " that.",
    subject="partition",
)
LEADERLESS = event(
    "partition.offline",
    Level.WARNING,
    "partition has no leader",
    "partition old_leader leader_epoch isr reason broker",
    "Start one of its replicas that were in sync. If all are lost for good: kafka-leader-election"
    " --election-type unclean.",
    subject="partition",
)
ISR_SHRUNK = event(
    "partition.isr_shrunk",
    Level.WARNING,
    "in-sync set shrunk",
    "partition left isr min_insync leader reason broker",
    "By reason. broker_fenced, controlled_shutdown: see the broker's events. replica_lagged: it has"
    " not caught up for replica.lag.time.max.ms; look at its disk and network. With fewer in sync"
    " than min_insync, writes with acks=all are refused.",
    subject="partition",
)
ISR_EXPANDED = event(
    "partition.isr_expanded",
    Level.INFO,
    "in-sync set expanded",
    "partition joined isr min_insync leader reason broker",
    NOTHING,
    subject="partition",
)
CHANGES_LEFT_OUT = event(
    "partition.changes_left_out",
    Level.WARNING,
    "changes of further partitions",
    "leaders unclean offline in_sync_sets reason broker",
    "They changed for the same reason as those in the lines before. kafka-topics --describe shows"
    " them all.",
)

# Groups: logged by the coordinator

GROUP_REBALANCE = event(
    "group.rebalance",
    Level.INFO,
    "group rebalances",
    "group cause member instance client_id client_host generation members state protocol",
    "By cause. session_timed_out: the member died or hangs, or its session time-out is too short."
    " rebalance_timed_out: it takes longer for its records than max.poll.interval.ms.",
    subject="group",
)
GROUP_GENERATION = event(
    "group.generation",
    Level.INFO,
    "group generation began",
    "group generation members leader protocol",
    NOTHING,
    subject="group",
)

# Producers and transactions

PRODUCER_TOOK_OVER = event(
    "producer.took_over",
    Level.INFO,
    "producer took over",
    "transactional_id producer_id epoch old_producer_id old_epoch client_id client_host"
    " correlation_id",
    "Nothing when a client was restarted. Two clients that take over from each other have the same"
    " transactional.id: give each its own.",
    subject="transactional_id",
)
PRODUCER_FENCED = event(
    "producer.fenced",
    Level.WARNING,
    "producer fenced",
    "transactional_id producer_id epoch current_producer_id current_epoch api error partition"
    " client_id client_host correlation_id",
    "A zombie: another client took over its transactional.id (see producer.took_over), or its"
    " transaction timed out (see transaction.aborted). End the old client if it still runs.",
    subject="transactional_id",
)
TRANSACTION_ABORTED = event(
    "transaction.aborted",
    Level.WARNING,
    "transaction aborted by its coordinator",
    "transactional_id producer_id epoch reason open_ms timeout_ms",
    "timed_out: its client has stopped, or needs longer than transaction.timeout.ms."
    " another_producer: a new client took over. same_producer: its own client began anew after an"
    " error.",
    subject="transactional_id",
)

# Traces

TRACING_STARTED = event(
    "tracing.started", Level.INFO, "traces are exported", "endpoint sample", NOTHING
)
TRACING_FAILED = event(
    "tracing.failed",
    Level.WARNING,
    "traces are not exported",
    "endpoint spans reason",
    "Check that the receiver runs and can be reached from this node. Logged once until an export"
    " succeeds again; only traces are lost.",
)

# Writes that fail

PRODUCE_REFUSED = event(
    "produce.refused",
    Level.WARNING,
    "produce refused",
    "partition error reason client_id correlation_id",
    "NOT_ENOUGH_REPLICAS: see partition.isr_shrunk of the controller for the partition, and bring"
    " its brokers back. INVALID_PRODUCER_EPOCH: a zombie, which another client has replaced.",
    subject="error",
)
ACK_FAILED = event(
    "produce.ack_failed",
    Level.WARNING,
    "produce not acknowledged",
    "partition error correlation_id",
    "The batch is in the leader's log, and not on all in-sync replicas. REQUEST_TIMED_OUT: a"
    " follower is slow. NOT_ENOUGH_REPLICAS_AFTER_APPEND: see partition.isr_shrunk."
    " NOT_LEADER_OR_FOLLOWER: another broker leads now; clients send it again.",
    subject="partition",
)

# Log-ins, rights, connections, throttling

AUTHENTICATION_FAILED = event(
    "authentication.failed",
    Level.WARNING,
    "authentication failed",
    "peer listener mechanism reason left_out",
    "One peer, once: a wrong password or an expired certificate. Many: somebody guesses; refuse"
    " the peer at the firewall. Names and secrets are never logged.",
    is_limited=False,
)
AUTHORIZATION_DENIED = event(
    "authorization.denied",
    Level.INFO,
    "authorization denied",
    "principal host listener api code",
    "Add the missing right if the principal should have it: penstock acls grant.",
    subject="host",  # those that are not known by name have one principal
)
CONNECTION_REFUSED = event(
    "connection.refused",
    Level.WARNING,
    "connection refused",
    "peer reason",
    "Too many connections: raise max.connections or max.connections.per.ip, or look for a client"
    " that does not close its own.",
    subject="reason",
)

THROTTLED = event(
    "replication.throttled",
    Level.INFO,
    "replication throttled",
    "role rate_bytes",
    "Remove the throttle when the reassignment is done: kafka-reassign-partitions --verify.",
    subject="role",
)

# Disks

DISK_FULL = event(
    "disk.full",
    Level.ERROR,
    "directory full=true",
    "directory partition reason",
    "Make room, or lower retention.ms or retention.bytes: appends are refused until there is room.",
    subject="directory",
)
DISK_FAILED = event(
    "disk.failed",
    Level.CRITICAL,
    "directory state=offline",
    "directory partitions reason",
    "Replace the disk and start the node again. Other brokers lead its partitions meanwhile.",
    subject="directory",
)
DISK_READ_FAILED = event(
    "disk.read_failed",
    Level.ERROR,
    "disk read failed",
    "file reason",
    "The records of that file cannot be read from this broker, which goes on leading: look into the"
    " system's log. If the disk is bad, move its replicas: penstock partitions reassign --drain.",
    subject="file",
)
DISK_READ_DELAYED = event(
    "disk.read_delayed",
    Level.ERROR,
    "disk read delayed",
    "file reason",
    "The disk is sound, but the node lacks file descriptors, memory or space, as the reason says:"
    " raise that limit, or make room. Readers ask again.",
)
DISK_NEARLY_FULL = event(
    "disk.nearly_full",
    Level.WARNING,
    "disk nearly full",
    "directory used_percent free_bytes total_bytes",
    "Add room, move partitions to other directories or brokers, or lower retention.",
    subject="directory",
)

# Replicas and coordinators

REPLICA_TRUNCATED = event(
    "replica.truncated",
    Level.INFO,
    "replica truncated",
    "partition leader leader_epoch end_offset",
    NOTHING,
    subject="partition",
)
TRUNCATED_BELOW_WATERMARK = event(
    "replica.truncated_below_watermark",
    Level.WARNING,
    "replica truncated below its high watermark",
    "partition leader leader_epoch end_offset high_watermark reason",
    "Records that clients may have read are given up, after an unclean election. See"
    " partition.unclean_election.",
    subject="partition",
)
FETCHER_CONNECTED = event(
    "replica.fetcher_connected",
    Level.INFO,
    "replica fetcher connected=true",
    "leader",
    NOTHING,
    subject="leader",
)
FETCHER_DISCONNECTED = event(
    "replica.fetcher_disconnected",
    Level.WARNING,
    "replica fetcher connected=false",
    "leader reason",
    "Nothing when that broker stops. Otherwise look at the network between the two.",
    subject="leader",
)
REPLICA_FAILED = event(
    "replica.failed",
    Level.ERROR,
    "replica failed",
    "partition leader state reason",
    "The replica is tried again. If it stays so, look at its disk and at the reason.",
    subject="partition",
)
COORDINATOR_LOADED = event(
    "coordinator.loaded",
    Level.INFO,
    "coordinator loaded",
    "partition records took_ms",
    NOTHING,
    subject="partition",
)
COORDINATOR_UNREADABLE = event(
    "coordinator.unreadable",
    Level.CRITICAL,
    "coordinator unreadable",
    "partition reason",
    "Its groups or transactions are not served. Restore the partition from another replica.",
    subject="partition",
)

# Alerts that this node evaluates

ALERTS_EVALUATED = event(
    "alert.evaluation",
    Level.INFO,
    "alerts are evaluated",
    "rules left_out",
    "Nothing. left_out: alerts that this node does not evaluate, and why.",
)
ALERT_FIRING = event(
    "alert.firing",
    Level.WARNING,
    "alert fires",
    "alert severity subject value threshold",
    "By the alert: docs/alerts.md.",
    subject="alert",
)
ALERT_CLEARED = event(
    "alert.cleared",
    Level.INFO,
    "alert cleared",
    "alert severity subject value threshold",
    NOTHING,
    subject="alert",
)
ALERT_TOPIC_FAILED = event(
    "alert.topic_failed",
    Level.WARNING,
    "alerts not written to their topic",
    "topic waiting reason",
    "They are tried again. If it stays so, look whether the topic has a leader, and whether nodes"
    " may write to it.",
    subject="topic",
)
ALERT_WEBHOOK_FAILED = event(
    "alert.webhook_failed",
    Level.WARNING,
    "alert not taken by the webhook",
    "alert subject state tries reason",
    "It is sent again once a minute, until it is taken or the alert fires anew. See that the"
    " receiver at penstock.alerts.webhook.url runs and answers with 2xx.",
    subject="alert",
)

# One request over several nodes

REQUEST_FORWARDED = event(
    "request.forwarded",
    Level.DEBUG,
    "request forwarded",
    "api to client_id client_host correlation_id",
    "The controller has the same client_id and correlation_id in request.received.",
    is_limited=False,
)
REQUEST_RECEIVED = event(
    "request.received",
    Level.DEBUG,
    "forwarded request received",
    "api client_id client_host correlation_id",
    "The broker that forwarded it has the same client_id and correlation_id in request.forwarded.",
    is_limited=False,
)
