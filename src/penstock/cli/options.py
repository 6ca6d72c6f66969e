"""Options that many commands have, written once."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])
Given = TypeVar("Given", str | None, tuple[str, ...])

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"

COMMAND_CONFIG = "penstock.command_config"  # in the meta of a command's context


def _keep_command_config(context: click.Context, _: click.Parameter, path: Path | None) -> None:
    """Kept where `connect` finds it: commands have nothing else to do with it."""
    if path is not None:
        context.meta[COMMAND_CONFIG] = path


brokers_option = click.option(
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
command_config_option = click.option(
    "--command-config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    envvar="PENSTOCK_COMMAND_CONFIG",
    show_envvar=True,
    expose_value=False,
    callback=_keep_command_config,
    help="A file with security.protocol, ssl.truststore.location, sasl.jaas.config, ...",
)


def bootstrap_option(command: Command) -> Command:
    """Which brokers to begin with, and how to be let in there."""
    return brokers_option(command_config_option(command))


def given_command_config() -> Path | None:
    """That of the running command."""
    context = click.get_current_context(silent=True)
    path = None if context is None else context.meta.get(COMMAND_CONFIG)
    assert path is None or isinstance(path, Path)
    return path


json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON: one value, over several lines."
)
json_lines_option = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON: one object a line."
)


ignore_room_option = click.option(
    "--ignore-room", is_flag=True, help="Also if copies do not fit on the disks of brokers."
)


def cluster_options(command: Command) -> Command:
    """`--bootstrap` and `--json`, as every command that asks a cluster has them."""
    return bootstrap_option(json_option(command))


def record_options(command: Command) -> Command:
    """The same for a command that prints records, of which nobody knows how many will come."""
    return bootstrap_option(json_lines_option(command))


def not_empty(context: click.Context, parameter: click.Parameter, given: Given) -> Given:
    """The callback of an option that names or selects something. A variable of a shell that is not
    set gives an empty text; taken for none, it would select everything.
    """
    if "" in (given if isinstance(given, tuple) else (given,)):
        raise click.BadParameter("it is empty")
    return given


def parse_settings(pairs: Iterable[str], *, option: str) -> dict[str, str]:
    """NAME=VALUE arguments as a mapping; a later one of the same name wins."""
    settings = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise click.BadParameter(f"{pair!r}: expected NAME=VALUE", param_hint=option)
        settings[name.strip()] = value.strip()
    return settings
