"""Every API that is served on a controller's listener."""

from penstock.broker.api import (
    api_versions,
    begin_quorum_epoch,
    describe_quorum,
    end_quorum_epoch,
    fetch_metadata_log,
    fetch_snapshot,
    vote,
)
from penstock.broker.request.api_table import AnyApi

SERVED_BY_CONTROLLERS: tuple[AnyApi, ...] = (
    fetch_metadata_log.API,
    api_versions.API,
    vote.API,
    begin_quorum_epoch.API,
    end_quorum_epoch.API,
    describe_quorum.API,
    fetch_snapshot.API,
)
