"""Placeholders in the values of settings, so that secrets need not stand in a file of settings:

    ${env:NAME}               a variable of the environment
    ${file:PATH:KEY}          a property of another file
    ${directory:PATH:NAME}    a whole file, as secrets are mounted into containers

Files of nodes and of clients may have them, and may declare providers of their own (see
`model/settings/config_providers`). What no provider is named in stays as it is, as in Apache Kafka.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from penstock.model.error import PenstockError
from penstock.model.settings.config_providers import (
    BY_DEFAULT,
    CONFIG_PROVIDERS,
    ConfigProvider,
    ForeignProvider,
    ProviderKind,
    config_providers,
)
from penstock.world.properties import BadProperties, read_properties

PLACEHOLDER = re.compile(r"\$\{(?P<provider>[^}:]*):(?P<place>[^}]*)\}")
Providers = Mapping[str, ConfigProvider | ForeignProvider]


class Unresolved(PenstockError):
    """Nothing stands behind a placeholder."""


def resolved_settings(values: Mapping[str, str]) -> dict[str, str]:
    """The settings with what their placeholders stand for; Unresolved, with the name of the first
    setting for which there is nothing.
    """
    providers = config_providers(values)
    found = {}
    for name, value in values.items():
        if name == CONFIG_PROVIDERS or name.startswith(f"{CONFIG_PROVIDERS}."):
            found[name] = value
            continue
        try:
            found[name] = resolved(value, providers)
        except Unresolved as error:
            raise Unresolved(f"{name}: {error}") from None
    return found


def resolved(value: str, providers: Providers = BY_DEFAULT) -> str:
    """A value with what its placeholders stand for."""

    def found(placeholder: re.Match[str]) -> str:
        provider = providers.get(placeholder["provider"])
        if provider is None:
            return placeholder[0]
        try:
            return _looked_up(provider, placeholder["place"])
        except Unresolved as error:
            raise Unresolved(f"{placeholder[0]}: {error}") from None

    return PLACEHOLDER.sub(found, value)


def _looked_up(provider: ConfigProvider | ForeignProvider, place: str) -> str:
    if isinstance(provider, ForeignProvider):
        here = ", ".join(map(str, ProviderKind))
        raise Unresolved(f"there is no provider {provider.class_name}, only {here}")
    if provider.kind is ProviderKind.ENVIRONMENT:
        return _of_environment(provider, place)
    asked, _, key = place.rpartition(":")
    path = _allowed(provider, asked)
    if provider.kind is ProviderKind.FILE:
        return _of_file(path, key)
    return _of_directory(path, key)


def _of_environment(provider: ConfigProvider, name: str) -> str:
    if provider.allowed_names is not None and provider.allowed_names.fullmatch(name) is None:
        raise Unresolved("its allowlist.pattern leaves this variable out")
    try:
        return os.environ[name]
    except (KeyError, ValueError):
        raise Unresolved("the environment has no such variable") from None


def _of_file(path: str, key: str) -> str:
    try:
        values = read_properties(Path(path))
    except (OSError, ValueError) as error:
        raise Unresolved(_reason(error)) from None
    except BadProperties:  # which says what stands in it
        raise Unresolved("the file is none of properties") from None
    if key not in values:
        raise Unresolved(f"the file has no property {key}")
    return values[key]


def _of_directory(path: str, name: str) -> str:
    if Path(name).name != name:  # it could lead out of what is allowed
        raise Unresolved("after the directory comes the name of a file in it")
    try:
        return (Path(path) / name).read_text("utf-8").rstrip("\n")
    except (OSError, ValueError) as error:
        raise Unresolved(_reason(error)) from None


def _allowed(provider: ConfigProvider, path: str) -> str:
    """The path to open: where paths are bounded the one that was compared, since `link/..` is
    elsewhere if the link is followed first.
    """
    if provider.allowed_paths is None:
        return path
    asked = os.path.normpath(path)
    if not any(Path(asked).is_relative_to(os.path.normpath(one)) for one in provider.allowed_paths):
        raise Unresolved("its allowed.paths leave this path out")
    return asked


def _reason(error: OSError | ValueError) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return "the file is no text" if isinstance(error, UnicodeError) else "no file has such a name"
