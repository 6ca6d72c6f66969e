"""Where controllers listen is known to every node, also after a snapshot."""

import pytest

from penstock.broker.controller.registration import listeners_of, supported_features
from penstock.metadata.image.broker import Endpoint
from penstock.metadata.image.difference import difference
from penstock.metadata.image.image import Image
from penstock.metadata.loader import Loader
from penstock.metadata.records import FEATURE_LEVELS, decode_record, encode_record
from penstock.metadata.snapshot import image_records
from penstock.model.error import ErrorCode, RequestError
from penstock.model.identity import NodeId
from penstock.model.offset import LeaderEpoch, Offset
from penstock.wire.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from penstock.wire.messages.metadata_records.controller import RegisterControllerRecord
from rig.cluster import Cluster

ONE, TWO = NodeId(1), NodeId(2)


def registration(
    node_id: NodeId, *, port: int, incarnation: int = 0
) -> ControllerRegistrationRequest:
    endpoint = Endpoint(listener="CONTROLLER", host="localhost", port=port)
    return ControllerRegistrationRequest(
        controller_id=node_id,
        incarnation_id=bytes((node_id, incarnation)) * 8,
        listeners=listeners_of([endpoint]),
        features=supported_features(),
    )


def test_the_cluster_learns_where_a_controller_listens() -> None:
    cluster = Cluster()
    reply = cluster.ask(registration(TWO, port=9093))
    assert isinstance(reply, ControllerRegistrationResponse)
    assert reply.error_code == 0
    controller = cluster.image.controllers[TWO]
    assert controller.endpoints == (Endpoint(listener="CONTROLLER", host="localhost", port=9093),)
    assert {feature.name: feature.max_level for feature in controller.features} == FEATURE_LEVELS
    assert cluster.state.controllers == cluster.image.controllers


def test_the_latest_registration_counts() -> None:
    cluster = Cluster()
    cluster.ask(registration(TWO, port=9093))
    cluster.ask(registration(TWO, port=9999, incarnation=1))
    (endpoint,) = cluster.image.controllers[TWO].endpoints
    assert endpoint.port == 9999


@pytest.mark.parametrize(("node_id", "protocol"), [(-1, 0), (2, -1), (2, 4)])
def test_a_registration_that_no_controller_can_mean_is_refused(node_id: int, protocol: int) -> None:
    cluster = Cluster()
    count = len(cluster.records)
    request = registration(TWO, port=9093)
    request.controller_id = node_id
    request.listeners[0].security_protocol = protocol
    with pytest.raises(RequestError) as error:
        cluster.ask(request)
    assert error.value.code == ErrorCode.INVALID_REGISTRATION
    assert len(cluster.records) == count


def test_the_same_registration_again_writes_nothing() -> None:
    cluster = Cluster()
    cluster.ask(registration(TWO, port=9093))
    count = len(cluster.records)
    cluster.ask(registration(TWO, port=9093))
    assert len(cluster.records) == count


def test_controllers_are_in_the_snapshot() -> None:
    cluster = Cluster()
    cluster.ask(registration(TWO, port=9094))
    cluster.ask(registration(ONE, port=9093))
    loader = Loader()
    loader.load(
        [decode_record(encode_record(record)) for record in image_records(cluster.image)],
        next_offset=cluster.image.offset,
        epoch=cluster.image.epoch,
    )
    assert loader.image == cluster.image
    assert list(loader.image.controllers) == [ONE, TWO]
    assert difference(Image(), loader.image).controllers_changed == (ONE, TWO)


def test_a_step_names_the_controllers_that_registered_in_it() -> None:
    record = RegisterControllerRecord(controller_id=TWO)
    delta, image = Loader().load([record], next_offset=Offset(1), epoch=LeaderEpoch(1))
    assert delta.controllers_changed == (TWO,)
    assert list(image.controllers) == [TWO]
