"""`penstock tokens`: delegation tokens, by which others log in as their owners."""

from datetime import UTC, datetime

import click

from penstock.cli.command_group import CommandGroup
from penstock.cli.connect import with_cluster
from penstock.cli.options import cluster_options
from penstock.cli.show import print_json, print_table, say
from penstock.cli.times import parse_duration_ms
from penstock.client.admin.tokens import (
    AT_ONCE,
    BY_SETTING,
    KnownToken,
    create_token,
    expire_token,
    find_token,
    list_tokens,
    renew_token,
)
from penstock.client.network.cluster import Cluster
from penstock.security.principal import USER, InvalidPrincipal, Principal


def _principals(
    context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]
) -> tuple[Principal, ...]:
    """`alice` is short for `User:alice`."""
    try:
        return tuple(Principal.parse(text if ":" in text else f"{USER}:{text}") for text in texts)
    except InvalidPrincipal as error:
        raise click.BadParameter(str(error)) from None


def _principal(
    context: click.Context, parameter: click.Parameter, text: str | None
) -> Principal | None:
    return None if text is None else _principals(context, parameter, (text,))[0]


def _duration(context: click.Context, parameter: click.Parameter, text: str | None) -> int | None:
    try:
        return None if text is None else parse_duration_ms(text)
    except ValueError:
        raise click.BadParameter(f"{text!r}: expected a duration such as 12h or 7d") from None


token_argument = click.argument("token_id", metavar="TOKEN")


@click.group(cls=CommandGroup)
def tokens() -> None:
    """Create, list, renew and expire delegation tokens."""


@tokens.command("create")
@click.option("--owner", callback=_principal, help="Who logs in by it.  [default: you]")
@click.option(
    "--renewer",
    "renewers",
    multiple=True,
    callback=_principals,
    help="Who may renew and expire it besides its owner; may be repeated.",
)
@click.option(
    "--lifetime",
    "lifetime_ms",
    callback=_duration,
    help="How long it can be renewed, such as 2d.  [default: delegation.token.max.lifetime.ms]",
)
@cluster_options
def create(
    owner: Principal | None,
    renewers: tuple[Principal, ...],
    lifetime_ms: int | None,
    bootstrap: str,
    as_json: bool,
) -> None:
    """Create a token. Its HMAC is a password: keep it secret."""

    async def work(cluster: Cluster) -> KnownToken:
        return await create_token(
            cluster,
            owner=owner,
            renewers=renewers,
            lifetime_ms=BY_SETTING if lifetime_ms is None else lifetime_ms,
        )

    made = with_cluster(bootstrap, work)
    if as_json:
        print_json({**_values(made), "hmac": made.password})
        return
    token = made.token
    say(
        f"token {token.token_id} of {token.owner} expires at {_time(token.expires_ms)},"
        f" and can be renewed until {_time(token.max_ms)}"
    )
    say(f"HMAC {made.password}")


@tokens.command("list")
@click.option(
    "--owner",
    "owners",
    multiple=True,
    callback=_principals,
    help="Only those that this one owns, asked for or may renew; may be repeated.",
)
@click.option("--show-hmac", is_flag=True, help="Show the passwords too.")
@cluster_options
def list_all(owners: tuple[Principal, ...], show_hmac: bool, bootstrap: str, as_json: bool) -> None:
    """List tokens that you may see."""

    async def work(cluster: Cluster) -> list[KnownToken]:
        return await list_tokens(cluster, owners)

    found = with_cluster(bootstrap, work)
    if as_json:
        print_json(
            [{**_values(one), **({"hmac": one.password} if show_hmac else {})} for one in found]
        )
        return
    columns = ("TOKEN", "OWNER", "REQUESTER", "RENEWERS", "ISSUED", "EXPIRES", "UNTIL")
    print_table(
        (*columns, "HMAC") if show_hmac else columns,
        [
            (
                one.token.token_id,
                one.token.owner,
                one.token.requester,
                ", ".join(one.token.renewers) or None,
                _time(one.token.issued_ms),
                _time(one.token.expires_ms),
                _time(one.token.max_ms),
                *((one.password,) if show_hmac else ()),
            )
            for one in found
        ],
    )


@tokens.command("renew")
@token_argument
@click.option(
    "--for",
    "period_ms",
    callback=_duration,
    help="How long it counts from now on.  [default: delegation.token.expiry.time.ms]",
)
@cluster_options
def renew(token_id: str, period_ms: int | None, bootstrap: str, as_json: bool) -> None:
    """Let a token count for longer."""

    async def work(cluster: Cluster) -> int:
        known = await find_token(cluster, token_id)
        return await renew_token(
            cluster, known, period_ms=BY_SETTING if period_ms is None else period_ms
        )

    _say_expiry(token_id, with_cluster(bootstrap, work), as_json)


@tokens.command("expire")
@token_argument
@click.option(
    "--after",
    "period_ms",
    callback=_duration,
    help="How long it still counts.  [default: it is removed at once]",
)
@cluster_options
def expire(token_id: str, period_ms: int | None, bootstrap: str, as_json: bool) -> None:
    """End a token. Connections that are open stay open until the token would have expired."""

    async def work(cluster: Cluster) -> int:
        known = await find_token(cluster, token_id)
        return await expire_token(
            cluster, known, period_ms=AT_ONCE if period_ms is None else period_ms
        )

    _say_expiry(token_id, with_cluster(bootstrap, work), as_json)


def _say_expiry(token_id: str, expires_ms: int, as_json: bool) -> None:
    if as_json:
        print_json({"token": token_id, "expires_ms": expires_ms})
    else:
        say(f"token {token_id} expires at {_time(expires_ms)}")


def _values(known: KnownToken) -> dict[str, object]:
    token = known.token
    return {
        "token": token.token_id,
        "owner": token.owner,
        "requester": token.requester,
        "renewers": list(token.renewers),
        "issued_ms": token.issued_ms,
        "expires_ms": token.expires_ms,
        "max_ms": token.max_ms,
    }


def _time(moment_ms: int) -> str:
    try:
        return datetime.fromtimestamp(moment_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, ValueError, OSError):
        return f"@{moment_ms}"  # in a year that no calendar has
