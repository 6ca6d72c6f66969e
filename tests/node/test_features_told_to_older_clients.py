"""Java clients from 3.3 to 3.7 fail on a feature whose lowest level is 0 (KAFKA-17011).

They ask in version 3 of ApiVersions at most. Apache Kafka leaves such features out of versions
below 4 (KAFKA-17492).
"""

from collections.abc import Iterator

import pytest

from penstock.raft.wire_form.voters import KRAFT_VERSION_FEATURE
from penstock.wire.messages.api_versions import ApiVersionsRequest
from rig.dialogue import Dialogue
from rig.serve import ServedNode


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedNode]:
    served = ServedNode(data=tmp_path_factory.mktemp("features") / "node")
    served.start()
    yield served
    assert served.stop() == 0


def lowest_levels(node: ServedNode, *, version: int) -> dict[str, int]:
    """Of the features that the node supports, by name."""
    dialogue = Dialogue(node.bootstrap, "of-nobody")
    hello = ApiVersionsRequest(client_software_name="old", client_software_version="1")
    reply = dialogue.exchange(hello, version=version)
    dialogue.close()
    assert reply.error_code == 0, reply
    return {one.name: one.min_version for one in reply.supported_features}


def test_version_3_names_only_features_whose_lowest_level_is_above_0(node: ServedNode) -> None:
    levels = lowest_levels(node, version=3)
    assert "metadata.version" in levels
    assert [name for name, level in levels.items() if level < 1] == []


def test_version_4_names_the_features_of_version_3_and_those_from_level_0(
    node: ServedNode,
) -> None:
    before = lowest_levels(node, version=3)
    assert lowest_levels(node, version=4) == {**before, KRAFT_VERSION_FEATURE: 0}


@pytest.mark.parametrize("version", [0, 1, 2])
def test_versions_without_features_are_answered(node: ServedNode, version: int) -> None:
    assert lowest_levels(node, version=version) == {}
