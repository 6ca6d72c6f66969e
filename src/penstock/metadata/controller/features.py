"""Levels of features: what every node supports, upwards by default (KIP-584, KIP-778)."""

from collections.abc import Iterable
from enum import IntEnum
from typing import NoReturn

from penstock.machine.decision import Decision
from penstock.metadata.controller.decision_context import DecisionContext
from penstock.metadata.records import FEATURE_LEVELS, MetadataRecord
from penstock.model.error import ErrorCode, RequestError
from penstock.wire.messages.metadata_records.feature_level import FeatureLevelRecord
from penstock.wire.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)


class UpgradeType(IntEnum):
    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


# A node, and the lowest and the highest level of a feature that it supports.
Range = tuple[str, int, int]


def update_features(
    context: DecisionContext, request: UpdateFeaturesRequest
) -> Decision[MetadataRecord, UpdateFeaturesResponse]:
    """RequestError for the first update that cannot be done: then none is."""
    state = context.state
    records: list[MetadataRecord] = []
    seen: set[str] = set()
    for update in request.feature_updates:
        name = update.feature
        if name in seen:
            _refuse(name, "it is named twice")
        seen.add(name)
        level = state.features.get(name, 0)
        check_update(update, level=level, ranges=_ranges(context, name))
        if update.max_version_level != level:
            records.append(FeatureLevelRecord(name=name, feature_level=update.max_version_level))
    return Decision(
        records=() if request.validate_only else tuple(records), reply=UpdateFeaturesResponse()
    )


def check_update(update: FeatureUpdateKey, *, level: int, ranges: Iterable[Range]) -> None:
    """RequestError when a feature of this level cannot be updated as asked."""
    name, wanted = update.feature, update.max_version_level
    known = [kind.value for kind in UpgradeType]
    if update.upgrade_type not in known:
        _refuse(name, f"{update.upgrade_type} is no upgrade type")
    if wanted < 0:
        _refuse(name, f"{wanted} is no level")
    upgrades = update.upgrade_type == UpgradeType.UPGRADE and not update.allow_downgrade
    if upgrades and wanted < level:
        _refuse(name, f"it has level {level}, and {wanted} would be a downgrade")
    if not upgrades and wanted > level:
        _refuse(name, f"it has level {level}, and {wanted} would be no downgrade")
    if wanted == level:
        return
    for node, lowest, highest in ranges:
        if not lowest <= wanted <= highest:
            supported = f"{lowest}" if lowest == highest else f"{lowest} to {highest}"
            _refuse(name, f"{node} does not support level {wanted}, but {supported}")


def _ranges(context: DecisionContext, name: str) -> list[Range]:
    own = FEATURE_LEVELS.get(name)
    if own is None:
        _refuse(name, "the controller does not know the feature")
    state = context.state
    ranges: list[Range] = [("this controller", own, own)]
    for what, nodes in (("broker", state.brokers), ("controller", state.controllers)):
        for node_id in sorted(nodes):
            for feature in nodes[node_id].features:
                if feature.name == name:
                    ranges.append((f"{what} {node_id}", feature.min_level, feature.max_level))
    return ranges


def _refuse(name: str, reason: str) -> NoReturn:
    raise RequestError(ErrorCode.INVALID_UPDATE_VERSION, f"{name} cannot be updated: {reason}.")
