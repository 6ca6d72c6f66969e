"""`penstock partitions`: reassign, elect-leaders."""

import click

from penstock.cli.command_group import CommandGroup
from penstock.cli.partitions_elect import elect
from penstock.cli.partitions_reassign import reassign


@click.group(cls=CommandGroup)
def partitions() -> None:
    """Move partitions between brokers, and elect their leaders."""


partitions.add_command(reassign)
partitions.add_command(elect)
