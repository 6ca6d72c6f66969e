"""When the active controller takes a broker for dead: by its session, or by its connection."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.metadata.controller.broker_sessions import BrokerSessions, GoneBy
from penstock.metadata.image.broker import BrokerImage
from penstock.model.identity import NodeId

TIMEOUT_MS = 9000
OWN, SECOND, THIRD, FOURTH, FIFTH = (NodeId(node) for node in range(1, 6))


def broker(node_id: NodeId, *, epoch: int = 10, fenced: bool = False) -> BrokerImage:
    return BrokerImage(
        node_id=node_id, epoch=epoch, incarnation=b"", rack=None, endpoints=(), fenced=fenced
    )


def elected(*nodes: NodeId, now_ms: int = 0) -> BrokerSessions:
    """The sessions of a controller that was just elected, on the node `OWN`."""
    sessions = BrokerSessions(OWN, TIMEOUT_MS)
    sessions.begin([broker(node) for node in nodes], now_ms)
    return sessions


def connected(*nodes: NodeId) -> BrokerSessions:
    """Every one of them has been heard from at time 0; its connection is its own id."""
    sessions = elected(*nodes)
    for node in nodes:
        connection = None if node == OWN else f"from {node}"
        sessions.heard_from(node, epoch=10, connection=connection, now_ms=0)
    return sessions


def is_refused(sessions: BrokerSessions, node: NodeId, now_ms: int = 1) -> bool:
    """Its connection breaks and its endpoint refuses another one."""
    sessions.connection_lost(f"from {node}")
    return sessions.refused(node, epoch=10, now_ms=now_ms)


# Sessions


def test_a_silent_broker_expires_after_its_session() -> None:
    sessions = connected(OWN, SECOND)
    assert sessions.next_deadline_ms() == TIMEOUT_MS
    assert sessions.expired(TIMEOUT_MS - 1) == ()
    assert sessions.expired(TIMEOUT_MS) == (SECOND,)


def test_each_heartbeat_begins_the_session_again() -> None:
    sessions = connected(OWN, SECOND)
    sessions.heard_from(SECOND, epoch=10, connection="from 2", now_ms=5000)
    assert sessions.expired(TIMEOUT_MS) == ()
    assert sessions.next_deadline_ms() == 5000 + TIMEOUT_MS


def test_a_new_controller_gives_each_unfenced_broker_a_whole_session() -> None:
    sessions = BrokerSessions(OWN, TIMEOUT_MS)
    sessions.begin([broker(SECOND), broker(THIRD), broker(FOURTH, fenced=True)], 100_000)
    assert sessions.expired(100_000 + TIMEOUT_MS - 1) == ()
    assert sessions.expired(100_000 + TIMEOUT_MS) == (SECOND, THIRD)


def test_the_own_broker_does_not_expire_once_it_was_heard_from() -> None:
    sessions = connected(OWN, SECOND)
    assert sessions.expired(10**9) == (SECOND,)
    sessions.ended(SECOND)
    assert sessions.expired(10**9) == ()
    assert sessions.next_deadline_ms() is None


def test_the_own_broker_of_an_earlier_process_expires_if_another_one_could_take_over() -> None:
    assert elected(OWN).expired(TIMEOUT_MS) == ()
    sessions = elected(OWN, SECOND)
    assert sessions.expired(TIMEOUT_MS) == (OWN, SECOND)


def test_time_in_which_the_controller_stood_still_does_not_count() -> None:
    sessions = connected(OWN, SECOND, THIRD)
    sessions.heard_from(THIRD, epoch=10, connection="from 3", now_ms=2000)
    sessions.not_listening(60_000, 63_000)  # from time 3000 on
    assert sessions.expired(60_000 + TIMEOUT_MS - 1) == ()
    assert sessions.expired(60_000 + TIMEOUT_MS) == (SECOND,)
    assert sessions.expired(62_000 + TIMEOUT_MS) == (SECOND, THIRD)


def test_who_was_heard_after_a_pause_has_one_session_from_then_on() -> None:
    sessions = connected(OWN, SECOND)
    sessions.heard_from(SECOND, epoch=10, connection="from 2", now_ms=60_000)
    sessions.not_listening(60_000, 60_001)
    assert sessions.expired(60_000 + TIMEOUT_MS) == ()
    assert sessions.expired(60_001 + TIMEOUT_MS) == (SECOND,)


def test_a_broker_that_was_fenced_has_no_session_until_it_is_heard_again() -> None:
    sessions = connected(OWN, SECOND)
    sessions.ended(SECOND)
    assert not sessions.is_alive(SECOND, 1)
    assert sessions.next_deadline_ms() is None
    sessions.heard_from(SECOND, epoch=10, connection="again", now_ms=100)
    assert sessions.is_alive(SECOND, 101)


# Is another process alive under the same id?


def test_a_process_is_alive_while_its_session_lasts() -> None:
    sessions = connected(OWN, SECOND)
    assert sessions.is_alive(SECOND, TIMEOUT_MS - 1)
    assert not sessions.is_alive(SECOND, TIMEOUT_MS)
    assert not sessions.is_alive(THIRD, 0)


def test_the_own_broker_of_an_earlier_process_is_dead() -> None:
    sessions = elected(OWN, SECOND)
    assert not sessions.is_alive(OWN, 0)
    sessions.heard_from(OWN, epoch=20, connection=None, now_ms=1)
    assert sessions.is_alive(OWN, 10**9)


# Connections


def test_a_lost_connection_names_the_broker_that_was_last_heard_over_it() -> None:
    sessions = connected(OWN, SECOND, THIRD)
    assert sessions.is_connected(THIRD)
    assert sessions.connection_lost("from 3") == THIRD
    assert not sessions.is_connected(THIRD)
    assert sessions.is_connected(SECOND)
    assert sessions.connection_lost("from 3") is None


def test_a_connection_that_was_replaced_means_nothing_when_it_is_lost() -> None:
    sessions = connected(OWN, SECOND)
    sessions.heard_from(SECOND, epoch=10, connection="newer", now_ms=1)
    assert sessions.connection_lost("from 2") is None
    assert sessions.is_connected(SECOND)


def test_brokers_that_were_not_heard_since_the_election_are_to_be_tried() -> None:
    sessions = elected(OWN, SECOND, THIRD)
    assert sessions.unheard() == (SECOND, THIRD)
    sessions.heard_from(SECOND, epoch=10, connection="from 2", now_ms=1)
    assert sessions.unheard() == (THIRD,)


# Fencing by refusal


def test_a_broker_whose_connection_broke_and_that_refuses_another_is_fenced() -> None:
    assert is_refused(connected(OWN, SECOND, THIRD), SECOND)


def test_a_broker_that_was_never_heard_and_refuses_is_fenced() -> None:
    assert elected(OWN, SECOND, THIRD).refused(SECOND, epoch=10, now_ms=1)


def test_a_broker_that_is_connected_is_not_fenced_by_a_refusal() -> None:
    sessions = connected(OWN, SECOND, THIRD)
    assert not sessions.refused(SECOND, epoch=10, now_ms=1)


def test_a_broker_that_connected_again_is_not_fenced_by_an_older_refusal() -> None:
    sessions = connected(OWN, SECOND, THIRD)
    sessions.connection_lost("from 2")
    sessions.heard_from(SECOND, epoch=10, connection="again", now_ms=1)
    assert not sessions.refused(SECOND, epoch=10, now_ms=2)


def test_a_refusal_found_for_an_earlier_process_does_not_count() -> None:
    sessions = connected(OWN, SECOND, THIRD)
    sessions.heard_from(SECOND, epoch=20, connection="newer", now_ms=1)
    sessions.connection_lost("newer")
    assert not sessions.refused(SECOND, epoch=10, now_ms=2)
    assert sessions.refused(SECOND, epoch=20, now_ms=2)


def test_a_broker_without_a_session_is_not_fenced_again() -> None:
    sessions = connected(OWN, SECOND, THIRD)
    sessions.ended(SECOND)
    assert not is_refused(sessions, SECOND)


def test_when_more_than_half_refuse_the_sessions_decide() -> None:
    sessions = connected(OWN, SECOND, THIRD, FOURTH)
    fenced = []
    for node in (SECOND, THIRD, FOURTH):
        if is_refused(sessions, node):
            fenced.append(node)
            sessions.ended(node)
    assert fenced == [SECOND, THIRD]
    assert sessions.expired(TIMEOUT_MS) == (FOURTH,)


def test_the_only_broker_beside_a_pure_controller_is_left_to_its_session() -> None:
    sessions = connected(SECOND)
    assert not is_refused(sessions, SECOND)
    assert sessions.expired(TIMEOUT_MS) == (SECOND,)


def test_refusals_of_long_ago_do_not_count() -> None:
    sessions = connected(OWN, SECOND, THIRD, FOURTH)
    for node in (SECOND, THIRD):
        assert is_refused(sessions, node)
        sessions.ended(node)
    sessions.heard_from(FOURTH, epoch=10, connection="from 4", now_ms=TIMEOUT_MS)
    assert is_refused(sessions, FOURTH, now_ms=TIMEOUT_MS + 1)


def test_a_broker_that_came_back_does_not_count_as_refusing() -> None:
    sessions = connected(OWN, SECOND, THIRD)
    assert is_refused(sessions, SECOND)
    sessions.ended(SECOND)
    sessions.heard_from(SECOND, epoch=20, connection="restarted", now_ms=5)
    assert is_refused(sessions, THIRD, now_ms=6)


def test_one_process_is_fenced_by_refusal_once() -> None:
    sessions = connected(OWN, SECOND, THIRD)
    assert is_refused(sessions, SECOND)
    sessions.fenced(SECOND, epoch=10, by=GoneBy.CONNECTION)
    sessions.heard_from(SECOND, epoch=10, connection="from 2", now_ms=5)
    assert not is_refused(sessions, SECOND, now_ms=6)
    assert sessions.expired(5 + TIMEOUT_MS) == (SECOND, THIRD)


def test_a_new_process_may_be_fenced_by_refusal_again() -> None:
    sessions = connected(OWN, SECOND, THIRD)
    assert is_refused(sessions, SECOND)
    sessions.fenced(SECOND, epoch=10, by=GoneBy.CONNECTION)
    sessions.heard_from(SECOND, epoch=20, connection="restarted", now_ms=5)
    sessions.connection_lost("restarted")
    assert sessions.refused(SECOND, epoch=20, now_ms=6)


NODES = st.sampled_from([OWN, SECOND, THIRD, FOURTH, FIFTH])
CONNECTIONS = st.sampled_from(["a", "b", "c", "d"])
STEPS = st.one_of(
    st.tuples(st.just("heard"), NODES, CONNECTIONS),
    st.tuples(st.just("lost"), NODES, CONNECTIONS),
    st.tuples(st.just("refused"), NODES, CONNECTIONS),
    st.tuples(st.just("ended"), NODES, CONNECTIONS),
    st.tuples(st.just("elected"), NODES, CONNECTIONS),
    st.tuples(st.just("paused"), NODES, CONNECTIONS),
)


@given(steps=st.lists(st.tuples(STEPS, st.integers(0, TIMEOUT_MS)), max_size=40))
def test_whatever_happens_who_is_heard_in_time_stays(
    steps: list[tuple[tuple[str, NodeId, str], int]],
) -> None:
    everyone = [OWN, SECOND, THIRD, FOURTH, FIFTH]
    sessions = elected(*everyone)
    heard_ms: dict[NodeId, int] = dict.fromkeys(everyone, 0)
    now_ms = 0
    for (step, node, connection), elapsed_ms in steps:
        now_ms += elapsed_ms
        if step == "heard":
            own = node == OWN
            sessions.heard_from(
                node, epoch=10, connection=None if own else connection, now_ms=now_ms
            )
            heard_ms[node] = now_ms
        elif step == "lost":
            sessions.connection_lost(connection)
        elif step == "refused":
            was_connected = sessions.is_connected(node)
            assert not (sessions.refused(node, epoch=10, now_ms=now_ms) and was_connected)
        elif step == "ended":
            sessions.ended(node)
            heard_ms.pop(node, None)
        elif step == "paused":
            sessions.not_listening(elapsed_ms, now_ms)
            heard_ms = {each: min(now_ms, at + elapsed_ms) for each, at in heard_ms.items()}
        else:
            sessions = elected(*everyone, now_ms=now_ms)
            heard_ms = dict.fromkeys(everyone, now_ms)
        sessions.check()
        expired = sessions.expired(now_ms)
        for node_id in expired:
            assert now_ms - heard_ms[node_id] >= TIMEOUT_MS
        for node_id, last_ms in heard_ms.items():
            if node_id != OWN and now_ms - last_ms >= TIMEOUT_MS:
                assert node_id in expired
        deadline_ms = sessions.next_deadline_ms()
        assert (deadline_ms is not None and deadline_ms <= now_ms) == bool(expired)


@pytest.mark.parametrize("brokers", range(2, 9))
def test_at_most_half_of_the_brokers_are_fenced_by_refusal_at_a_time(brokers: int) -> None:
    nodes = [NodeId(node) for node in range(2, brokers + 2)]
    sessions = connected(*nodes)
    fenced = 0
    for node in nodes:
        if is_refused(sessions, node):
            sessions.ended(node)
            fenced += 1
    assert fenced == brokers // 2


# Silence


def test_a_broker_is_silent_until_this_controller_has_heard_from_it() -> None:
    sessions = elected(OWN, SECOND)
    assert sessions.is_silent(OWN, 0)
    assert sessions.is_silent(SECOND, 0)
    for node in (OWN, SECOND):
        sessions.heard_from(node, epoch=10, connection=None, now_ms=0)
        assert not sessions.is_silent(node, 0)


def test_a_broker_is_silent_after_half_a_session_and_the_own_one_never() -> None:
    sessions = connected(OWN, SECOND)
    assert not sessions.is_silent(SECOND, TIMEOUT_MS // 2 - 1)
    assert sessions.is_silent(SECOND, TIMEOUT_MS // 2)
    assert not sessions.is_silent(OWN, 10**9)


def test_a_dead_broker_is_silent_until_it_speaks() -> None:
    sessions = connected(OWN, SECOND, THIRD)
    assert is_refused(sessions, SECOND)
    assert sessions.gone(1) == {SECOND: GoneBy.CONNECTION}
    assert sessions.is_silent(SECOND, 1)
    assert not sessions.is_alive(SECOND, 1)
    sessions.heard_from(SECOND, epoch=10, connection="again", now_ms=2)
    assert sessions.gone(2) == {}
    assert not sessions.is_silent(SECOND, 2)


def test_a_broker_whose_connection_is_gone_is_silent() -> None:
    sessions = connected(OWN, SECOND)
    sessions.connection_lost("from 2")
    assert sessions.is_silent(SECOND, 1)
    assert sessions.disconnected() == (SECOND,)
    assert sessions.gone(1) == {}


def test_time_in_which_the_controller_stood_still_makes_nobody_less_silent() -> None:
    sessions = connected(OWN, SECOND)
    sessions.not_listening(60_000, 60_000)
    assert sessions.is_alive(SECOND, 60_000)
    assert sessions.is_silent(SECOND, 60_000)


def test_heartbeats_that_are_rare_by_choice_are_waited_for() -> None:
    sessions = BrokerSessions(OWN, TIMEOUT_MS, heartbeat_interval_ms=4000)
    sessions.heard_from(SECOND, epoch=10, connection="from 2", now_ms=0)
    assert not sessions.is_silent(SECOND, 5999)
    assert sessions.is_silent(SECOND, 6000)


def test_a_broker_that_a_new_process_replaces_is_gone() -> None:
    sessions = elected(OWN, SECOND)
    assert sessions.restarted(SECOND)
    assert not sessions.restarted(SECOND), "it is known"
    assert not sessions.restarted(THIRD), "it is fenced"
    assert sessions.gone(0) == {SECOND: GoneBy.RESTART}


def test_one_that_is_restarted_was_not_refused_by_the_network() -> None:
    sessions = connected(OWN, SECOND, THIRD)
    assert is_refused(sessions, SECOND)
    sessions.heard_from(SECOND, epoch=10, connection="again", now_ms=1)
    sessions.connection_lost("again")
    assert sessions.refused(SECOND, epoch=10, now_ms=2)
    assert not is_refused(sessions, THIRD, 3), "two of three"
    sessions = connected(OWN, SECOND, THIRD)
    sessions.restarted(SECOND)
    assert is_refused(sessions, THIRD)


def test_one_that_refused_and_is_restarted_does_not_count_as_refusing() -> None:
    sessions = connected(OWN, SECOND, THIRD)
    assert is_refused(sessions, SECOND)
    assert not is_refused(sessions, THIRD), "two of three: rather the network"
    assert not sessions.restarted(SECOND), "it is known to be gone"
    assert sessions.refused(THIRD, epoch=10, now_ms=2)


def test_brokers_without_a_session_are_fenced_already_and_not_silent() -> None:
    sessions = connected(OWN, SECOND)
    sessions.ended(SECOND)
    assert not sessions.is_silent(SECOND, 0)
