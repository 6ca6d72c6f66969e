"""A change of the metadata that was acked lasts, whatever crashes."""

from collections.abc import Mapping

from penstock.client.admin.configs import Resource, describe_configs
from penstock.client.network.cluster import Cluster
from penstock.client.network.errors import Refused
from penstock.model.configs import ResourceKind
from penstock.sim.errors import Violation
from penstock.sim.history import History


async def check_metadata(history: History, cluster: Cluster) -> None:
    view = await cluster.refresh_all()
    for name, there in sorted(history.topics.items()):
        if there is not None and there != (name in view.topics):
            told = "created" if there else "deleted"
            raise Violation("metadata", f"{name} was {told}, and that is forgotten")
    for name, settings in sorted(history.settings.items()):
        if history.topics.get(name) is True and settings:
            await _check_settings(cluster, name, settings)


async def _check_settings(cluster: Cluster, name: str, settings: Mapping[str, str | None]) -> None:
    resource = Resource(ResourceKind.TOPIC, name)
    told = (await describe_configs(cluster, [resource]))[resource]
    if isinstance(told, Refused):
        raise Violation("metadata", f"settings of {name} are not told: {told}")
    found = {entry.name: entry.value for entry in told}
    for setting, value in settings.items():
        if value is not None and found.get(setting) != value:
            raise Violation(
                "metadata", f"{setting} of {name} was set to {value} and is {found.get(setting)}"
            )
