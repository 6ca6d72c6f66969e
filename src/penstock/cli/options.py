"""Options that many commands have, written once."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"

bootstrap_option = click.option(
    "--bootstrap",
    "--bootstrap-server",
    "bootstrap",
    envvar="PENSTOCK_BOOTSTRAP",
    default=DEFAULT_BOOTSTRAP,
    show_default=True,
    show_envvar=True,
    metavar="HOST:PORT[,...]",
    help="Brokers to begin with.",
)
json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON: one value, over several lines."
)
json_lines_option = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON: one object a line."
)


def cluster_options(command: Command) -> Command:
    """`--bootstrap` and `--json`, as every command that asks a cluster has them."""
    return bootstrap_option(json_option(command))


def record_options(command: Command) -> Command:
    """The same for a command that prints records, of which nobody knows how many will come."""
    return bootstrap_option(json_lines_option(command))


def parse_settings(pairs: Iterable[str], *, option: str) -> dict[str, str]:
    """NAME=VALUE arguments as a mapping; a later one of the same name wins."""
    settings = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise click.BadParameter(f"{pair!r}: expected NAME=VALUE", param_hint=option)
        settings[name.strip()] = value.strip()
    return settings
