"""A cluster of several nodes in one test: all in this process, each of them stopped and killed by
itself.
"""

import threading
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.testing import Broker, BrokerFailed, LayoutRefused, running_broker

WAIT_SECONDS = 60


@pytest.mark.penstock(nodes=3)
class TestThreeNodes:
    def test_nodes_have_addresses_of_their_own_and_one_thread(self, penstock: Broker) -> None:
        assert list(penstock.nodes) == [1, 2, 3]
        assert penstock.running == {1, 2, 3}
        assert penstock.bootstrap == ",".join(penstock.nodes.values())
        assert len(set(penstock.nodes.values())) == 3
        named = [one for one in threading.enumerate() if one.name == "penstock broker"]
        assert len(named) == 1

    def test_partitions_are_spread_and_clients_are_led_to_each(self, penstock: Broker) -> None:
        penstock.topic("orders", partitions=6)
        leaders = {penstock.leader("orders", index) for index in range(6)}
        assert leaders == {1, 2, 3}
        producer = confluent_kafka.Producer({"bootstrap.servers": penstock.nodes[3]})
        for index in range(6):
            producer.produce("orders", f"{index}", partition=index)
        assert producer.flush(WAIT_SECONDS) == 0
        assert [record.value for record in penstock.records("orders")] == [
            b"0", b"1", b"2", b"3", b"4", b"5",
        ]  # fmt: skip

    def test_each_node_takes_changes_and_shows_them(self, penstock: Broker) -> None:
        for number, address in penstock.nodes.items():
            admin = AdminClient({"bootstrap.servers": address})
            [made] = admin.create_topics([NewTopic(f"by-{number}", 1)]).values()
            made.result(WAIT_SECONDS)
            assert f"by-{number}" in admin.list_topics(timeout=WAIT_SECONDS).topics

    def test_another_controller_takes_over(self, penstock: Broker) -> None:
        before = penstock.active_controller()
        penstock.kill(before)
        penstock.topic("after")
        assert penstock.active_controller() != before
        assert penstock.running == {1, 2, 3} - {before}
        penstock.start(before)
        assert penstock.running == {1, 2, 3}

    @pytest.mark.parametrize("end", ["kill", "stop"])
    def test_partitions_have_another_leader_while_theirs_is_away(
        self, penstock: Broker, end: str
    ) -> None:
        penstock.topic("orders", partitions=3)
        penstock.produce("orders", ["kept"], partition=0)
        leader = penstock.leader("orders", 0)
        assert leader is not None
        getattr(penstock, end)(leader)
        assert [record.value for record in penstock.records("orders", at_least=1)] == [b"kept"]
        assert penstock.leader("orders", 0) in penstock.running
        penstock.start(leader)
        assert [record.value for record in penstock.records("orders", at_least=1)] == [b"kept"]

    def test_restart_of_one_and_of_all(self, penstock: Broker) -> None:
        penstock.produce("orders", ["kept"])
        addresses = dict(penstock.nodes)
        penstock.restart(2)
        penstock.restart()
        assert penstock.nodes == addresses
        assert len(penstock.records("orders", at_least=1)) == 1

    def test_all_may_be_killed(self, penstock: Broker) -> None:
        penstock.produce("orders", ["kept"])
        penstock.kill()
        assert penstock.running == set()
        penstock.start()
        assert len(penstock.records("orders", at_least=1)) == 1

    def test_node_that_is_not_there_is_told(self, penstock: Broker) -> None:
        with pytest.raises(BrokerFailed, match="there is no node 4: there are 1, 2, 3"):
            penstock.kill(4)
        penstock.kill(2)
        penstock.kill(2)
        penstock.start(3)
        penstock.start()
        assert penstock.running == {1, 2, 3}

    def test_one_node_is_not_started_without_the_others(self, penstock: Broker) -> None:
        penstock.kill()
        with pytest.raises(BrokerFailed, match="node 1 alone is no majority"):
            penstock.start(1)


def test_cluster_is_kept_in_a_directory_of_the_users_own(tmp_path: Path) -> None:
    with running_broker(nodes=3, data=tmp_path) as broker:
        broker.produce("orders", ["kept"])
    with running_broker(nodes=3, data=tmp_path, settings={"num.partitions": 2}) as broker:
        assert len(broker.records("orders", at_least=1)) == 1
        assert broker.leader(broker.topic("two"), 1) is not None
    with (
        pytest.raises(LayoutRefused, match="holds 3 nodes, not 2"),
        running_broker(nodes=2, data=tmp_path),
    ):
        pass


def test_nodes_beyond_the_voters_are_brokers() -> None:
    with running_broker(nodes=4) as broker:
        assert broker.running == {1, 2, 3, 4}
        assert broker.active_controller() in {1, 2, 3}
        broker.topic("orders", partitions=8)
        leaders = {broker.leader("orders", index) for index in range(8)}
        assert leaders == {1, 2, 3, 4}


def test_setting_of_the_layout_is_refused() -> None:
    with (
        pytest.raises(LayoutRefused, match=r"process\.roles is part of the layout"),
        running_broker(nodes=3, settings={"process.roles": "broker"}),
    ):
        pass


def test_one_node_has_its_id_and_address(penstock: Broker) -> None:
    assert penstock.nodes == {1: penstock.bootstrap}
    assert penstock.active_controller() == 1
    assert penstock.leader(penstock.topic()) == 1
    penstock.restart(1)
    assert penstock.running == {1}
