"""`penstock partitions`: reassign, elect-leaders, balance, hot."""

import click

from penstock.cli.command_group import CommandGroup
from penstock.cli.partitions_balance import balance
from penstock.cli.partitions_elect import elect
from penstock.cli.partitions_hot import hot
from penstock.cli.partitions_reassign import reassign


@click.group(cls=CommandGroup)
def partitions() -> None:
    """Move partitions between brokers, balance their load, and elect their leaders."""


partitions.add_command(reassign)
partitions.add_command(elect)
partitions.add_command(balance)
partitions.add_command(hot)
