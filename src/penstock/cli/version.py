"""What `penstock --version` tells. Apart from the rest since it looks into the installed package.

`importlib.metadata` brings the parsers of mail and of zip files with it, which every command would
load: some 20 ms.
"""

import importlib.metadata

import click

from penstock.cli.compiled import hot_modules_form, kernel_form


def print_version() -> None:
    click.echo(f"penstock {importlib.metadata.version('penstock')}")
    click.echo(f"record kernel: {kernel_form().value}, hot modules: {hot_modules_form().value}")
