"""The metadata quorum as this node sees it. How far the others have come the leader alone knows."""

from penstock.broker.controller.local_controller import LocalController
from penstock.metrics.family import Source, Steps, gauge

PREFIX = "kafka_server_raftmetrics_"
NO_NODE = -1
STATE = gauge(
    f"{PREFIX}current_state",
    "1 for the role of this node: leader, candidate, follower, resigned, ... or observer.",
    "current_state",
)
LEADER = gauge(f"{PREFIX}current_leader", "The node that leads the quorum; -1 while unknown.")
EPOCH = gauge(f"{PREFIX}current_epoch", "The epoch of the quorum; each election raises it.")
WATERMARK = gauge(f"{PREFIX}high_watermark", "Up to where the metadata log is committed.")
END = gauge(f"{PREFIX}log_end_offset", "Where this node's metadata log ends.")
VOTERS = gauge(f"{PREFIX}number_of_voters", "How many nodes vote.")
LAG = gauge(
    "penstock_raft_replica_lag_records",
    "How far a replica of the metadata log is behind; told by the leader of the quorum.",
    "replica",
)
APPLIED = gauge(
    "kafka_server_brokermetadatametrics_last_applied_record_offset",
    "The last offset of the metadata log that this node has taken up.",
)
OBSERVER = "observer"


def quorum_metrics(local: LocalController) -> Source:
    def samples() -> Steps:
        replica = local.quorum.replica
        state = replica.state
        role = state.role.name if state.is_voter else OBSERVER
        yield STATE.sample(1, role)
        leader = replica.leader_id
        yield LEADER.sample(NO_NODE if leader is None else leader)
        yield EPOCH.sample(state.epoch)
        yield WATERMARK.sample(state.high_watermark)
        yield END.sample(state.log.end_offset)
        yield VOTERS.sample(len(state.voters.keys))
        yield APPLIED.sample(local.image.offset - 1)
        described = local.quorum.describe()
        if described is not None:
            for one in (*described.voters, *described.observers):
                if one.end_offset is not None:
                    lag = max(state.log.end_offset - one.end_offset, 0)
                    yield LAG.sample(lag, str(one.key.node_id))

    return Source((STATE, LEADER, EPOCH, WATERMARK, END, VOTERS, LAG, APPLIED), samples)
