"""The command `penstock`: one table of nouns, each loaded when it is first used.

`penstock serve` must start fast and small, so it must not pay for tables, progress bars and the
client; and `--help` must not pay for anything. This table, and `--version` beside it, are the late
imports of the project.
"""

import gc
import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, NamedTuple

import click
from click.shell_completion import CompletionItem

from penstock.cli import status
from penstock.cli.command_group import CommandGroup
from penstock.cli.compiled import refuse_stale
from penstock.cli.escape import escaped
from penstock.cli.last_line import say_error
from penstock.cli.outputs import discard_unwritable, open_missing_outputs
from penstock.model.error import PenstockError

VERSION_MODULE = "penstock.cli.version"


class Noun(NamedTuple):
    module: str  # holds a click command of the noun's name
    summary: str


NOUNS = {
    "serve": Noun("penstock.cli.serve", "Run a node."),
    "storage": Noun("penstock.cli.storage", "Format the directories of a node, or look into them."),
    "security": Noun("penstock.cli.security", "Make certificates for trying TLS out."),
    "log": Noun("penstock.cli.log", "Read the files of a log."),
    "cluster": Noun(
        "penstock.cli.cluster", "Describe a cluster: brokers, quorum, versions, disks."
    ),
    "topics": Noun("penstock.cli.topics", "Create, list, describe, alter and delete topics."),
    "partitions": Noun(
        "penstock.cli.partitions", "Move, balance and elect leaders of partitions; find busy ones."
    ),
    "top": Noun("penstock.cli.top", "Watch nodes, topics, groups and problems of a cluster."),
    "alerts": Noun("penstock.cli.alerts", "Show the alerts that fire, and what to do."),
    "plan": Noun("penstock.cli.plan", "Plan partitions, disk, memory and metadata from the load."),
    "doctor": Noun(
        "penstock.cli.doctor", "Examine a cluster before it is relied on, and say what mends it."
    ),
    "configs": Noun("penstock.cli.configs", "Describe and alter settings of topics and brokers."),
    "groups": Noun("penstock.cli.groups", "List, describe, reset and delete consumer groups."),
    "users": Noun("penstock.cli.users", "Add, list and remove users that log in by SCRAM."),
    "tokens": Noun("penstock.cli.tokens", "Create, list, renew and expire delegation tokens."),
    "transactions": Noun(
        "penstock.cli.transactions", "See transactions, find those that hang, and abort them."
    ),
    "acls": Noun("penstock.cli.acls", "See, add and remove access control entries."),
    "produce": Noun("penstock.cli.produce", "Write records to a topic, line by line."),
    "consume": Noun("penstock.cli.consume", "Read records of a topic."),
    "dlq": Noun("penstock.cli.dlq", "List dead letters, and replay them."),
    "perf": Noun("penstock.cli.perf", "Measure producing, consuming and latency."),
    "pipeline": Noun(
        "penstock.cli.pipeline", "Run the ready pipelines on Spark, and write events for them."
    ),
    "cdc": Noun(
        "penstock.cli.cdc", "Capture changes of a database's tables; keep an index or a cache."
    ),
    "sim": Noun("penstock.cli.sim", "Crash a node in a simulated world, from a seed."),
    "demo": Noun("penstock.cli.demo", "Run a shop on a node and Spark, kill both, and prove it."),
}


class OutputClosed(Exception):
    """Whoever read our output has seen enough."""


@contextmanager
def _noticing_closed_output() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError as error:
        # Under a name of its own: click takes a broken pipe for itself, and ends with status 1.
        raise OutputClosed from error


class LateGroup(CommandGroup):
    """A group whose commands are known by name and summary until one is used."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        with _noticing_closed_output():  # help and version are printed here
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        with _noticing_closed_output():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(NOUNS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        noun = NOUNS.get(cmd_name)
        if noun is None:
            return None
        command = getattr(load(noun.module), cmd_name)
        assert isinstance(command, click.Command)
        return command

    def summaries(self, ctx: click.Context) -> list[tuple[str, str]]:
        return [(name, noun.summary) for name, noun in NOUNS.items()]

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        nouns = [
            CompletionItem(name, help=noun.summary)
            for name, noun in NOUNS.items()
            if name.startswith(incomplete)
        ]
        return nouns + click.Command.shell_complete(self, ctx, incomplete)


def load(module: str) -> ModuleType:
    """The module, with the hundreds that it imports, all of which live as long as the process."""
    if module in sys.modules:
        return sys.modules[module]
    # To look for garbage among them, now or later, would take a tenth of a start.
    gc.disable()
    try:
        return importlib.import_module(module)
    finally:
        gc.freeze()
        gc.enable()


def show_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if not wanted or ctx.resilient_parsing:
        return
    load(VERSION_MODULE).print_version()
    ctx.exit()


@click.group(cls=LateGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=show_version,
    help="Show the version and what of it is compiled.",
)
def penstock() -> None:
    """A distributed commit log that speaks the Apache Kafka protocol."""


def main() -> None:
    """Runs the command. What goes wrong is told in one line, and by the exit status."""
    open_missing_outputs()
    try:
        _run()
    finally:
        discard_unwritable()


def _run() -> None:
    try:
        refuse_stale()
        penstock.main(prog_name="penstock", standalone_mode=False)
        sys.stdout.flush()  # here it is told if that fails
    except click.exceptions.Exit as ended:
        sys.exit(ended.exit_code)
    except click.exceptions.NoArgsIsHelpError as error:
        say_error(error.format_message())
        sys.exit(error.exit_code)
    except click.ClickException as error:
        message = "\n".join(map(escaped, error.format_message().split("\n")))
        say_error(f"penstock: {message}")
        sys.exit(error.exit_code)
    except PenstockError as error:
        say_error(f"penstock: {escaped(' '.join(str(error).split()))}")
        sys.exit(1)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(status.INTERRUPTED)
    except (OutputClosed, BrokenPipeError):
        sys.exit(status.BROKEN_PIPE)
    except OSError as error:
        # A full disk, a file that may not be read: what the system says is all there is to say.
        say_error(f"penstock: {escaped(os_error_line(error))}")
        sys.exit(1)


def os_error_line(error: OSError) -> str:
    said = error.strerror or str(error) or type(error).__name__
    return said if error.filename is None else f"{error.filename}: {said}"


if __name__ == "__main__":
    main()
