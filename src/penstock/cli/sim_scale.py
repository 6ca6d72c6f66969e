"""`penstock sim scale`: what many partitions cost a cluster; see `penstock.sim.scale.run`."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from penstock.cli.options import json_option
from penstock.cli.show import OutputConsole, print_json, print_table
from penstock.cli.sim_figures import PromiseBroken
from penstock.sim.errors import Violation
from penstock.sim.scale.figures import Change, Loss, SizeFigures
from penstock.sim.scale.run import VOTERS_MAX, ScalePlan, Told, run_scale

NODES_MAX = 100
PARTITIONS_MAX = 1_000_000
MIB = 1024 * 1024

Row = tuple[str, Callable[[SizeFigures], str]]


@click.command()
@click.option("--nodes", default=10, show_default=True,
              type=click.IntRange(min=VOTERS_MAX, max=NODES_MAX),
              help=f"Brokers; {VOTERS_MAX} of them are controllers too.")  # fmt: skip
@click.option("--partitions", default=40_000, show_default=True,
              type=click.IntRange(min=1, max=PARTITIONS_MAX),
              help="How many the cluster grows to.")  # fmt: skip
@click.option("--replicas", default=3, show_default=True, type=click.IntRange(min=2),
              help="Of each partition.")  # fmt: skip
@json_option
def scale(nodes: int, partitions: int, replicas: int, as_json: bool) -> None:
    """Grow a cluster to many partitions, lose nodes, and show what that takes.

    Whole nodes on virtual time, with the CPU time that their code really takes; partitions hold no
    records. Figures are of 1,000 and 10,000 partitions on the way, and of all.
    """
    if replicas > nodes:
        raise click.UsageError(f"--replicas {replicas} needs as many nodes: there are {nodes}")
    plan = ScalePlan(nodes=nodes, partitions=partitions, replicas=replicas)
    try:
        with _progress(OutputConsole(stderr=True)) as told:
            found = run_scale(plan, told)
    except Violation as violation:
        raise PromiseBroken(str(violation)) from violation
    if as_json:
        print_json([_as_json(one) for one in found])
    else:
        _print(plan, found)


def _as_json(figures: SizeFigures) -> dict[str, object]:
    return {
        **asdict(figures),
        "changes": {_plain(kind): asdict(cost) for kind, cost in figures.changes.items()},
        "losses": {_plain(kind): asdict(cost) for kind, cost in figures.losses.items()},
    }


def _plain(kind: Change | Loss) -> str:
    return kind.name.lower()


def _print(plan: ScalePlan, found: list[SizeFigures]) -> None:
    columns = ["", *(f"{one.partitions:,} partitions" for one in found)]
    rows = [(name, *(figure(one) for one in found)) for name, figure in _rows()]
    title = f"{plan.nodes} nodes, {plan.replicas} replicas; CPU times are of this machine"
    print_table(columns, rows, title=title)
    lost = [
        (
            f"{one.partitions:,}: {kind.value}",
            cost.led,
            cost.replicas,
            f"{cost.elsewhere_ms:,.0f} ms",
            _ms(cost.controller_cpu_ms),
            _ms(cost.busiest_cpu_ms),
            _ms(cost.back_cpu_ms),
        )
        for one in found
        for kind, cost in one.losses.items()
    ]
    columns = [
        "a node is lost", "it led", "replicas", "led elsewhere after", "controller, CPU",
        "busiest other node, CPU", "back in sync, CPU of all",
    ]  # fmt: skip
    print_table(columns, lost, title="until every other node knows the new leaders")


def _rows() -> Iterator[Row]:
    yield "topics", lambda one: f"{one.topics:,}"
    yield "image in memory", lambda one: _mib(one.metadata.image_bytes)
    yield "snapshot", lambda one: _mib(one.metadata.snapshot_bytes)
    yield "its records", lambda one: f"{one.metadata.snapshot_records:,}"
    yield "write a snapshot, CPU", lambda one: _ms(one.metadata.snapshot_write_cpu_ms)
    yield "read a snapshot, CPU", lambda one: _ms(one.metadata.snapshot_read_cpu_ms)
    yield "log and snapshots on disk", lambda one: _mib(one.metadata.disk_bytes)
    yield "create, CPU of all for a partition", lambda one: _ms(one.create_cpu_ms)
    yield "idle, a node", lambda one: f"{one.idle_cpu:.2%} of a core"
    for kind in Change:
        yield f"{kind.value}: controller, CPU", _controller_ms(kind)
        yield f"{kind.value}: another node, CPU", _other_ms(kind)


def _controller_ms(kind: Change) -> Callable[[SizeFigures], str]:
    return lambda one: _ms(one.changes[kind].controller_cpu_ms)


def _other_ms(kind: Change) -> Callable[[SizeFigures], str]:
    return lambda one: _ms(one.changes[kind].other_cpu_ms)


def _ms(cpu_ms: float) -> str:
    return f"{cpu_ms:.2f} ms" if cpu_ms < 100 else f"{cpu_ms:,.0f} ms"


def _mib(size_bytes: int) -> str:
    return f"{size_bytes / MIB:.2f} MiB"


@contextmanager
def _progress(console: Console) -> Iterator[Told]:
    """A bar of the step that runs; elsewhere than on a terminal a line when one begins."""
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
    progress = Progress(*columns, TimeElapsedColumn(), console=console, transient=True)
    bar = progress.add_task("", total=1)
    begun: list[str] = []

    def told(what: str, done: int, total: int) -> None:
        progress.update(bar, description=what, completed=done, total=total)
        if not console.is_terminal and begun[-1:] != [what]:
            begun.append(what)
            console.print(what, highlight=False)

    if not console.is_terminal:
        yield told
        return
    with progress:
        yield told
