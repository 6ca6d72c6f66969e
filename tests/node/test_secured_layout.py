"""The files of secured nodes: clients log in, nodes show certificates, all of it has an effect."""

import pytest

from penstock.model.settings.broker import parse_broker, without_effect
from penstock.model.settings.cluster_node import cluster_node
from penstock.model.settings.listener import SecurityProtocol
from penstock.node.cluster_layout import LaidOutNode, LayoutRefused, lay_out, port_count, ports_from
from penstock.node.secured_layout import secure_layout


def secured(nodes: int, **settings: str) -> tuple[LaidOutNode, ...]:
    given = {name.replace("_", "."): value for name, value in settings.items()}
    count = port_count(nodes)
    ports = ports_from(9092, nodes, more=nodes)
    made = lay_out(nodes, data_directory="/data", ports=ports[:count], settings=given)
    return secure_layout(made, directory="/keys", ports=ports[count:], host="127.0.0.1")


@pytest.mark.parametrize("nodes", [1, 2, 3, 4])
def test_no_listener_is_in_plain_text_and_no_port_is_used_twice(nodes: int) -> None:
    ports = []
    for node in secured(nodes):
        settings = parse_broker(node.settings)
        member = cluster_node(settings, node.node_id)
        protocols = {name: settings.protocol_of(name) for name in member.listeners}
        controllers = {"CONTROLLER": SecurityProtocol.SSL} if member.is_controller else {}
        assert protocols == {
            "CLIENTS": SecurityProtocol.SASL_SSL,
            "BROKERS": SecurityProtocol.SSL,
            **controllers,
        }
        assert settings.protocol_of("CONTROLLER") is SecurityProtocol.SSL
        assert settings.unknown == ()
        assert without_effect(settings) == ()
        ports += [listener.port for listener in member.listeners.values()]
    assert sorted(ports) == list(ports_from(9092, nodes, more=nodes))


def test_all_nodes_are_super_users_by_their_own_names_on_each() -> None:
    expected = "User:admin;User:CN=node-1;User:CN=node-2;User:CN=node-3;User:CN=node-4"
    for node in secured(4):
        assert node.settings["super.users"] == expected
        assert node.settings["ssl.keystore.location"] == f"/keys/{node.name}.pem"


def test_settings_that_are_given_are_kept_unless_they_are_about_security() -> None:
    assert all(node.settings["num.partitions"] == "4" for node in secured(2, num_partitions="4"))
    with pytest.raises(LayoutRefused, match=r"sasl\.enabled\.mechanisms is what --secured decides"):
        secured(2, sasl_enabled_mechanisms="PLAIN")
