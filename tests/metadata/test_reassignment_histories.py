"""No history in which a partition also moves between brokers loses what was acknowledged, nor lets
a replica lead cleanly that lacks it (`rig/ghost_replicas` says what else holds).
"""

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.model.identity import NodeId
from rig.ghost_replicas import GhostReplicas

NODES = 4
nodes = st.sampled_from([NodeId(node) for node in range(1, NODES + 1)])
targets = st.lists(nodes, min_size=1, max_size=3, unique=True)
steps = st.one_of(
    st.tuples(st.just("learn"), nodes),
    st.tuples(st.just("append"), nodes),
    st.tuples(st.just("copy"), nodes, nodes),
    st.tuples(st.just("serve")),
    st.tuples(st.just("alter"), nodes, st.sets(nodes)),
    st.tuples(st.just("fence"), nodes),
    st.tuples(st.just("heartbeat"), nodes),
    st.tuples(st.just("shut down"), nodes),
    st.tuples(st.just("restart"), nodes, st.integers(0, 2)),
    st.tuples(st.just("min"), st.integers(1, 3)),
    st.tuples(st.just("reassign"), targets),
    st.tuples(st.just("cancel")),
    st.tuples(st.just("balance")),
)


def take(ghost: GhostReplicas, step: tuple[object, ...]) -> None:
    match step:
        case ("learn", int(node)):
            ghost.learn(NodeId(node))
        case ("append", int(node)):
            ghost.append(NodeId(node))
        case ("copy", int(leader), int(follower)):
            ghost.copy(NodeId(leader), NodeId(follower))
        case ("serve",):  # all know the leader, follow it, and join
            for one in ghost.nodes:
                ghost.learn(one)
            for leader in list(ghost.leading):
                ghost.append(leader)
                for one in ghost.nodes:
                    ghost.copy(leader, one)
                ghost.alter(leader, set(ghost.nodes))
        case ("alter", int(node), set(wanted)):
            ghost.alter(NodeId(node), {NodeId(int(str(one))) for one in wanted})
        case ("fence", int(node)):
            ghost.fence(NodeId(node))
        case ("heartbeat", int(node)):
            ghost.heartbeat(NodeId(node))
        case ("shut down", int(node)):
            ghost.heartbeat(NodeId(node), want_shut_down=True)
        case ("restart", int(node), int(lost)):
            ghost.restart(NodeId(node), lost=lost)
        case ("min", int(value)):
            ghost.set_in_sync_min(value, of_topic=True)
        case ("reassign", list(target)):
            ghost.reassign([NodeId(int(str(one))) for one in target])
        case ("cancel",):
            ghost.reassign(None)
        case ("balance",):
            ghost.balance()
        case _:
            raise AssertionError(step)


@settings(max_examples=400, deadline=None)
@given(
    in_sync_min=st.integers(1, 3),
    replicas=st.integers(1, 3),
    history=st.lists(steps, max_size=60),
)
def test_no_history_loses_what_was_acknowledged(
    in_sync_min: int, replicas: int, history: list[tuple[object, ...]]
) -> None:
    ghost = GhostReplicas(NODES, in_sync_min, replicas=replicas)
    for step in history:
        take(ghost, step)
        ghost.check()
