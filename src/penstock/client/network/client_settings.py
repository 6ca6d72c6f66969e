"""A file with settings of a client, such as `--command-config FILE` and `configFile` of Spark name.

It is one of properties with Kafka's names (`connect`, `client_security`, `secured_network`). A
secret need not stand in it, or on a command line:

    ${env:NAME}               a variable of the environment
    ${file:PATH:KEY}          a property of another file
    ${directory:PATH:NAME}    a whole file, as secrets are mounted into containers
"""

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from penstock.client.network.client_security import BadSecurity
from penstock.world.properties import read_properties

PLACEHOLDER = re.compile(r"\$\{(?P<provider>env|file|directory):(?P<path>[^}]*)\}")


def read_client_settings(path: Path) -> dict[str, str]:
    """BadSecurity for what cannot be read."""
    try:
        values = read_properties(path)
    except OSError as error:
        raise BadSecurity(f"{path}: {error.strerror}") from error
    return {name: resolved(value) for name, value in values.items()}


def resolved(value: str) -> str:
    """A value with what its placeholders stand for."""
    return PLACEHOLDER.sub(lambda found: PROVIDERS[found["provider"]](found["path"]), value)


def _of_environment(name: str) -> str:
    try:
        return os.environ[name]
    except KeyError:
        raise BadSecurity(f"${{env:{name}}}: the environment has no such variable") from None


def _of_file(place: str) -> str:
    path, _, key = place.rpartition(":")
    try:
        values: Mapping[str, str] = read_properties(Path(path))
    except OSError as error:
        raise BadSecurity(f"${{file:{place}}}: {error.strerror}") from None
    if key not in values:
        raise BadSecurity(f"${{file:{place}}}: the file has no property {key}")
    return values[key]


def _of_directory(place: str) -> str:
    directory, _, name = place.rpartition(":")
    try:
        return (Path(directory) / name).read_text().rstrip("\n")
    except OSError as error:
        raise BadSecurity(f"${{directory:{place}}}: {error.strerror}") from None


PROVIDERS: Mapping[str, Callable[[str], str]] = {
    "env": _of_environment,
    "file": _of_file,
    "directory": _of_directory,
}
