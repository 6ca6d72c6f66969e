"""Where the values of placeholders such as `${env:NAME}` in files of settings come from.

Three providers are there without a setting: `env`, `file` and `directory`. As in Apache Kafka a
file may declare its own, under any name, and bound what they read:

    config.providers=secrets,env
    config.providers.secrets.class=org.apache.kafka.common.config.provider.FileConfigProvider
    config.providers.secrets.param.allowed.paths=/etc/penstock,/run/secrets
    config.providers.env.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider
    config.providers.env.param.allowlist.pattern=PENSTOCK_.*
"""

import re
from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType

from penstock.model.lazy_dataclass import dataclass
from penstock.model.settings.setting import InvalidSetting, items

CONFIG_PROVIDERS = "config.providers"
_OF_ONE = re.compile(r"config\.providers\.[^.]+\.(class|param\..+)")


class ProviderKind(Enum):
    """By the class of Apache Kafka that does the same."""

    ENVIRONMENT = "org.apache.kafka.common.config.provider.EnvVarConfigProvider"
    FILE = "org.apache.kafka.common.config.provider.FileConfigProvider"
    DIRECTORY = "org.apache.kafka.common.config.provider.DirectoryConfigProvider"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigProvider:
    """What one provider reads, and how much of it."""

    kind: ProviderKind
    allowed_names: re.Pattern[str] | None = None  # of variables; None: all
    allowed_paths: tuple[str, ...] | None = None  # above the files; None: all


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignProvider:
    """One whose class is not here: its placeholders cannot be resolved."""

    class_name: str


BY_DEFAULT: Mapping[str, ConfigProvider] = MappingProxyType(
    {
        "env": ConfigProvider(kind=ProviderKind.ENVIRONMENT),
        "file": ConfigProvider(kind=ProviderKind.FILE),
        "directory": ConfigProvider(kind=ProviderKind.DIRECTORY),
    }
)


def config_providers(values: Mapping[str, str]) -> Mapping[str, ConfigProvider | ForeignProvider]:
    """By their names, those that are there anyway and those that these settings declare."""
    found: dict[str, ConfigProvider | ForeignProvider] = dict(BY_DEFAULT)
    for name in items(values.get(CONFIG_PROVIDERS, "").strip()):
        class_name = values.get(f"{CONFIG_PROVIDERS}.{name}.class")
        if class_name is not None:
            found[name] = _declared(values, name, class_name.strip())
    return found


def is_of_config_provider(name: str) -> bool:
    """Whether it is the name of a setting of one provider."""
    return _OF_ONE.fullmatch(name) is not None


def _declared(
    values: Mapping[str, str], name: str, class_name: str
) -> ConfigProvider | ForeignProvider:
    try:
        kind = ProviderKind(class_name)
    except ValueError:
        return ForeignProvider(class_name=class_name)
    parameters = f"{CONFIG_PROVIDERS}.{name}.param."
    paths = values.get(f"{parameters}allowed.paths", "").strip()
    return ConfigProvider(
        kind=kind,
        allowed_names=_pattern(values, f"{parameters}allowlist.pattern"),
        allowed_paths=items(paths) or None,
    )


def _pattern(values: Mapping[str, str], name: str) -> re.Pattern[str] | None:
    text = values.get(name, "").strip()
    try:
        return re.compile(text) if text else None
    except re.error as error:
        raise InvalidSetting(
            name=name, value=text, expected=f"No regular expression: {error}"
        ) from None
