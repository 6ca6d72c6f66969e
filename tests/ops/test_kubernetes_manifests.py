"""The manifests fit together, and `penstock` takes the commands in them."""

import re
import shlex
from collections.abc import Iterator
from typing import Any

import click
import pytest

from penstock.model.settings.broker import parse_broker
from penstock.world.properties import parse_properties
from rig.command_lines import accepted
from rig.ops_files import manifest, manifests

STATEFUL_SET = manifest("StatefulSet")["spec"]
POD = STATEFUL_SET["template"]["spec"]
[INIT] = POD["initContainers"]
[NODE] = POD["containers"]
SERVICES = [one for one in manifests() if one["kind"] == "Service"]
SETTINGS = parse_properties(manifest("ConfigMap")["data"]["server.properties"])
PORTS = {port["name"]: port["containerPort"] for port in NODE["ports"]}


def test_every_object_has_a_kind_a_name_and_the_namespace() -> None:
    every = manifests()
    versions = {
        "ConfigMap": "v1",
        "Service": "v1",
        "StatefulSet": "apps/v1",
        "PodDisruptionBudget": "policy/v1",
    }
    assert {one["kind"] for one in every} == versions.keys()
    assert all(one["apiVersion"] == versions[one["kind"]] for one in every)
    assert {one["metadata"]["namespace"] for one in every} == {"streams"}
    assert len({(one["kind"], one["metadata"]["name"]) for one in every}) == len(every)


def selectors() -> Iterator[tuple[str, dict[str, str]]]:
    yield "StatefulSet", STATEFUL_SET["selector"]["matchLabels"]
    yield "budget", manifest("PodDisruptionBudget")["spec"]["selector"]["matchLabels"]
    [term] = POD["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    yield "affinity", term["labelSelector"]["matchLabels"]
    for service in SERVICES:
        yield service["metadata"]["name"], service["spec"]["selector"]


def test_every_selector_finds_the_pods() -> None:
    labels = STATEFUL_SET["template"]["metadata"]["labels"]
    for name, selector in selectors():
        assert selector and selector.items() <= labels.items(), name


def test_ports_that_are_named_are_those_of_the_node() -> None:
    for service in SERVICES:
        for port in service["spec"]["ports"]:
            assert port["port"] == PORTS[port["targetPort"]], port
    assert NODE["readinessProbe"]["tcpSocket"]["port"] in PORTS
    listeners = dict(one.split("://") for one in SETTINGS["listeners"].split(","))
    assert listeners["PLAINTEXT"] == f"0.0.0.0:{PORTS['clients']}"
    assert listeners["CONTROLLER"] == f"0.0.0.0:{PORTS['controllers']}"
    assert SETTINGS["penstock.metrics.address"] == f"0.0.0.0:{PORTS['metrics']}"


def test_every_mount_has_its_volume_and_every_volume_a_mount() -> None:
    volumes = [one["name"] for one in POD["volumes"]]
    volumes += [one["metadata"]["name"] for one in STATEFUL_SET["volumeClaimTemplates"]]
    mounted = {one["name"] for box in (INIT, NODE) for one in box["volumeMounts"]}
    assert len(set(volumes)) == len(volumes)
    assert mounted == set(volumes)
    [data] = {
        one["mountPath"]
        for box in (INIT, NODE)
        for one in box["volumeMounts"]
        if one["name"] == "data"
    }
    assert SETTINGS["log.dirs"].startswith(f"{data}/")


def test_what_is_referred_to_is_in_the_config_map() -> None:
    config = manifest("ConfigMap")
    [volume] = [one for one in POD["volumes"] if one["name"] == "config"]
    assert volume["configMap"]["name"] == config["metadata"]["name"]
    keys = [
        one["valueFrom"]["configMapKeyRef"]
        for one in INIT["env"]
        if "configMapKeyRef" in one["valueFrom"]
    ]
    assert [(one["name"], one["key"]) for one in keys] == [("penstock", "cluster-id")]
    assert keys[0]["key"] in config["data"]
    assert "cat /config/server.properties" in INIT["args"][0]


def test_voters_are_the_pods_by_their_names() -> None:
    service = manifest("Service", STATEFUL_SET["serviceName"])
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["publishNotReadyAddresses"] is True
    domain = f"{service['metadata']['name']}.{service['metadata']['namespace']}.svc.cluster.local"
    assert SETTINGS["controller.quorum.voters"].split(",") == [
        f"{ordinal}@penstock-{ordinal}.{domain}:9093" for ordinal in range(STATEFUL_SET["replicas"])
    ]


def test_one_pod_may_be_missing_and_no_two_share_a_machine() -> None:
    assert STATEFUL_SET["replicas"] == 3
    assert manifest("PodDisruptionBudget")["spec"]["maxUnavailable"] == 1
    assert int(SETTINGS["min.insync.replicas"]) == STATEFUL_SET["replicas"] - 1
    [term] = POD["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["topologyKey"] == "kubernetes.io/hostname"


@pytest.mark.parametrize("box", [INIT, NODE], ids=lambda box: str(box["name"]))
def test_containers_have_no_rights_and_no_secrets(box: dict[str, Any]) -> None:
    assert POD["securityContext"]["runAsNonRoot"] is True
    assert box["securityContext"]["allowPrivilegeEscalation"] is False
    assert box["securityContext"]["readOnlyRootFilesystem"] is True
    assert box["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert all("value" not in one for one in box.get("env", ()))


def test_every_setting_is_known_and_valid() -> None:
    own = {"node.id": "0", "advertised.listeners": "PLAINTEXT://penstock-0:9092"}
    settings = parse_broker({**SETTINGS, **own})
    assert settings.unknown == ()
    assert settings.retired == ()


def test_penstock_takes_the_commands() -> None:
    [line] = re.findall(r"^exec penstock (.*)$", INIT["args"][0], re.MULTILINE)
    words = [word.replace("/settings/server.properties", __file__) for word in shlex.split(line)]
    options = accepted(words)
    assert options["ignore_formatted"] is True
    assert options["cluster_id"] == "$CLUSTER_ID"
    program, *words = NODE["command"]
    assert program == "penstock"
    accepted([word.replace("/settings/server.properties", __file__) for word in words])


def test_a_command_that_penstock_does_not_have_is_refused() -> None:
    for words in (["serve", "--configuration", "x"], ["store", "format"], ["storage", "formats"]):
        with pytest.raises(click.ClickException):
            accepted(words)
