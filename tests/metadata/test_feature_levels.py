"""Levels of features: raised only to what every registered node supports."""

import pytest

from penstock.metadata.records import ELR_VERSION_FEATURE, FEATURE_LEVELS
from penstock.model.error import ErrorCode, RequestError
from penstock.model.identity import NodeId
from penstock.wire.messages.metadata_records.feature_level import FeatureLevelRecord
from penstock.wire.messages.unregister_broker import UnregisterBrokerRequest
from penstock.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from rig.cluster import Cluster

WANTED = FEATURE_LEVELS[ELR_VERSION_FEATURE]


def cluster_of_a_lower_level(*, second_supports: int) -> Cluster:
    """Two brokers, and a feature that nobody uses yet."""
    cluster = Cluster(1)
    cluster.follow(FeatureLevelRecord(name=ELR_VERSION_FEATURE, feature_level=0))
    registration = cluster.registration(NodeId(2))
    for feature in registration.features:
        if feature.name == ELR_VERSION_FEATURE:
            feature.min_supported_version = 0
            feature.max_supported_version = second_supports
    cluster.ask(registration)
    return cluster


def upgrade(*, validate_only: bool = False) -> UpdateFeaturesRequest:
    update = FeatureUpdateKey(feature=ELR_VERSION_FEATURE, max_version_level=WANTED, upgrade_type=1)
    return UpdateFeaturesRequest(feature_updates=[update], validate_only=validate_only)


@pytest.mark.parametrize("validate_only", [False, True])
def test_a_level_that_one_broker_does_not_support_is_refused(validate_only: bool) -> None:
    cluster = cluster_of_a_lower_level(second_supports=WANTED - 1)
    count = len(cluster.records)
    with pytest.raises(RequestError) as refused:
        cluster.ask(upgrade(validate_only=validate_only))
    assert refused.value.code == ErrorCode.INVALID_UPDATE_VERSION
    assert f"broker 2 does not support level {WANTED}" in str(refused.value)
    assert len(cluster.records) == count


def test_a_level_that_every_broker_supports_is_taken() -> None:
    cluster = cluster_of_a_lower_level(second_supports=WANTED)
    cluster.ask(upgrade())
    assert cluster.state.features[ELR_VERSION_FEATURE] == WANTED


def test_a_broker_that_is_gone_for_good_is_not_asked_any_more() -> None:
    cluster = cluster_of_a_lower_level(second_supports=WANTED - 1)
    cluster.ask(UnregisterBrokerRequest(broker_id=2))
    cluster.ask(upgrade())
    assert cluster.state.features[ELR_VERSION_FEATURE] == WANTED
