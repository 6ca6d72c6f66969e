"""`penstock users`: those that log in by SCRAM."""

import os
from pathlib import Path

import click

from penstock.cli.command_group import CommandGroup
from penstock.cli.connect import with_cluster
from penstock.cli.options import cluster_options
from penstock.cli.show import print_json, print_table, say
from penstock.client.admin.users import Iterations, list_users, remove_user, set_password
from penstock.client.network.cluster import Cluster
from penstock.client.network.errors import Refused
from penstock.model.error import PenstockError
from penstock.model.sasl import ScramMechanism
from penstock.security.sasl.scram_credential import ITERATIONS_MAX, ITERATIONS_MIN
from penstock.world.entropy import RealEntropy

PASSWORD_VARIABLE = "PENSTOCK_USER_PASSWORD"
BY_NAME = {str(mechanism): mechanism for mechanism in ScramMechanism}

mechanism_option = click.option(
    "--mechanism",
    "mechanisms",
    multiple=True,
    type=click.Choice(list(BY_NAME), case_sensitive=False),
    help="Only for this one; may be repeated.  [default: both]",
)


class NoPassword(PenstockError):
    """Nobody has said what the password is."""


@click.group(cls=CommandGroup)
def users() -> None:
    """Add, list and remove users that log in by SCRAM."""


@users.command("add")
@click.argument("name")
@mechanism_option
@click.option(
    "--password-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help=f"A file that holds the password.  [default: ${PASSWORD_VARIABLE}, else a prompt]",
)
@click.option(
    "--iterations",
    type=click.IntRange(ITERATIONS_MIN, ITERATIONS_MAX),
    default=ITERATIONS_MIN,
    show_default=True,
    help="How much work a log-in is for the client, and a guess for a thief.",
)
@cluster_options
def add(
    name: str,
    mechanisms: tuple[str, ...],
    password_file: Path | None,
    iterations: int,
    bootstrap: str,
    as_json: bool,
) -> None:
    """Add a user, or give it another password."""
    chosen = _chosen(mechanisms)
    password = _password(name, password_file)

    async def work(cluster: Cluster) -> None:
        await set_password(
            cluster,
            name,
            password,
            chosen,
            iterations=iterations,
            random_bytes=RealEntropy().random_bytes,
        )

    with_cluster(bootstrap, work)
    if as_json:
        print_json({"user": name, "mechanisms": [str(one) for one in chosen]})
    else:
        say(f"user {name} can log in by {', '.join(map(str, chosen))}")


@users.command("list")
@cluster_options
def list_all(bootstrap: str, as_json: bool) -> None:
    """List users with their mechanisms and iterations."""
    found = with_cluster(bootstrap, list_users)
    rows = [
        (name, mechanism, iterations)
        for name, kinds in found.items()
        if not isinstance(kinds, Refused)
        for mechanism, iterations in kinds.items()
    ]
    if as_json:
        print_json(
            [
                {"user": name, "mechanism": str(mechanism), "iterations": iterations}
                for name, mechanism, iterations in rows
            ]
        )
    else:
        print_table(
            ("USER", "MECHANISM", "ITERATIONS"),
            [(name, str(mechanism), str(iterations)) for name, mechanism, iterations in rows],
        )


@users.command("remove")
@click.argument("name")
@mechanism_option
@cluster_options
def remove(name: str, mechanisms: tuple[str, ...], bootstrap: str, as_json: bool) -> None:
    """Remove a user. Connections that are open stay open until they end."""

    async def work(cluster: Cluster) -> tuple[ScramMechanism, ...]:
        chosen = _chosen(mechanisms)
        if not mechanisms:
            (kinds,) = (await list_users(cluster, [name])).values()
            if isinstance(kinds, Refused):
                raise kinds
            chosen = _of(kinds)
        await remove_user(cluster, name, chosen)
        return chosen

    removed = with_cluster(bootstrap, work)
    if as_json:
        print_json({"user": name, "removed": [str(one) for one in removed]})
    else:
        say(f"user {name} can no longer log in by {', '.join(map(str, removed))}")


def _of(kinds: Iterations) -> tuple[ScramMechanism, ...]:
    return tuple(kinds)


def _chosen(names: tuple[str, ...]) -> tuple[ScramMechanism, ...]:
    return tuple(BY_NAME[name] for name in dict.fromkeys(names)) or tuple(ScramMechanism)


def _password(name: str, file: Path | None) -> str:
    """Never from the command line, which every process of the machine can read."""
    if file is not None:
        password = file.read_text("utf-8", "surrogateescape").rstrip("\n")
    elif PASSWORD_VARIABLE in os.environ:
        password = os.environ[PASSWORD_VARIABLE]
    else:
        password = click.prompt(
            f"Password of {name}", hide_input=True, confirmation_prompt=True, err=True
        )
    if not password:
        raise NoPassword(f"the password of {name} is empty")
    try:
        password.encode()
    except UnicodeEncodeError:
        raise NoPassword(f"the password of {name} is not UTF-8") from None
    return password
