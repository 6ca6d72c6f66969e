"""The names of settings that belong to one listener, which is named in lower case:

    listener.name.external.ssl.client.auth                  a setting, for the listener EXTERNAL
    listener.name.external.plain.sasl.jaas.config           one of SASL, for a mechanism there

Nothing reads a name with a slip in it, as one in capital letters, which Apache Kafka ignores. The
listener would then let in whom it was told to keep out, so such names are refused.
"""

import difflib
from collections.abc import Collection, Iterable, Mapping

from penstock.model.sasl import Mechanism
from penstock.model.settings.authorization import AUTHORIZATION_SETTINGS
from penstock.model.settings.sasl import JAAS_CONFIG, SASL_SETTINGS
from penstock.model.settings.setting import InvalidSetting
from penstock.model.settings.tls import TLS_SETTINGS

LISTENER_PREFIX = "listener.name."
MAX_CONNECTIONS = "max.connections"  # the only one apart from those of TLS and SASL
SLIPS = ("listener.", "listeners.")  # what begins so and is no setting was meant for a listener
# Apache Kafka's other one is not spoken here: where it is enabled the node does not start.
MECHANISMS = (*(one.value.lower() for one in Mechanism), "gssapi")
LIKENESS_MIN = 0.7


class UnknownOfListener(InvalidSetting):
    """A name that no setting of a listener has, and what would be right."""

    def __init__(self, name: str, expected: str) -> None:
        super().__init__(name=name, value=None, expected=expected)
        self.args = (f"Unknown broker config name: {name} ({expected})",)


def listener_prefix(listener: str) -> str:
    """What the names of settings of one listener begin with, as in Kafka."""
    return f"{LISTENER_PREFIX}{listener.lower()}."


def refuse_unknown_of_listeners(
    values: Mapping[str, str], *, listeners: Iterable[str], known: Collection[str]
) -> None:
    """UnknownOfListener for the first name that is neither one of `known` nor a setting of one of
    these listeners.
    """
    prefixes = {listener_prefix(listener): listener for listener in listeners}
    for name in sorted(values):
        if not name.startswith(SLIPS) or name in known:
            continue
        if not any(
            name.startswith(prefix) and _is_setting(name.removeprefix(prefix), known)
            for prefix in prefixes
        ):
            raise UnknownOfListener(name, _what_is_right(name.lower(), prefixes, known))


def _is_setting(name: str, known: Collection[str]) -> bool:
    """Whether there is such a setting of a listener. Access control is the same at all."""
    for mechanism in MECHANISMS:
        own = name.removeprefix(f"{mechanism}.")
        if own != name:
            return own in SASL_SETTINGS or (own.startswith("sasl.") and own in known)
    return name in known and name not in AUTHORIZATION_SETTINGS


def _what_is_right(name: str, prefixes: Mapping[str, str], known: Collection[str]) -> str:
    """Of a name in lower case, in which only capital letters may have been wrong."""
    for prefix in prefixes:
        if name.startswith(prefix):
            rest = name.removeprefix(prefix)
            if _is_setting(rest, known):
                return f"did you mean {prefix}{rest}?"
            near = difflib.get_close_matches(rest, _likely(), n=1, cutoff=LIKENESS_MIN)
            return f"did you mean {prefix}{near[0]}?" if near else "no listener has such a setting"
    candidates = [prefix + setting for prefix in prefixes for setting in _likely()]
    near = difflib.get_close_matches(name, candidates, n=1, cutoff=LIKENESS_MIN)
    return f"no listener has this name: there is {', '.join(sorted(prefixes.values()))}" + (
        f"; did you mean {near[0]}?" if near else ""
    )


def _likely() -> list[str]:
    """What listeners have most often."""
    of_mechanisms = (
        f"{mechanism}.{setting}"
        for mechanism in MECHANISMS
        for setting in (JAAS_CONFIG, *SASL_SETTINGS)
    )
    return [*TLS_SETTINGS, *SASL_SETTINGS, MAX_CONNECTIONS, *of_mechanisms]
