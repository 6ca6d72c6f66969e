"""A file with settings of a client, such as `--command-config FILE` and `configFile` of Spark name.

It is one of properties with Kafka's names (`connect`, `client_security`, `secured_network`). A
secret need not stand in it, or on a command line: `world/placeholders` says what may stand there.
"""

from pathlib import Path

from penstock.client.network.client_security import BadSecurity
from penstock.model.settings.setting import InvalidSetting
from penstock.world import placeholders
from penstock.world.properties import read_properties


def read_client_settings(path: Path) -> dict[str, str]:
    """BadSecurity for what cannot be read."""
    try:
        values = read_properties(path)
    except OSError as error:
        raise BadSecurity(f"{path}: {error.strerror}") from error
    try:
        return placeholders.resolved_settings(values)
    except (placeholders.Unresolved, InvalidSetting) as error:
        raise BadSecurity(str(error)) from None


def resolved(value: str) -> str:
    """A value with what its placeholders stand for."""
    try:
        return placeholders.resolved(value)
    except placeholders.Unresolved as error:
        raise BadSecurity(str(error)) from None
