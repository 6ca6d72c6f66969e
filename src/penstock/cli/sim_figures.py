"""What a campaign of `penstock sim` prints when it is over, and whether it was a success."""

from collections.abc import Sequence

from rich.console import Console

from penstock.cli.show import print_json
from penstock.model.error import PenstockError


class PromiseBroken(PenstockError):
    """A simulation found something wrong."""


def show_figures(figures: dict[str, object], console: Console, *, as_json: bool) -> None:
    if as_json:
        print_json(figures)
    else:
        words = (f"{name.replace('_', ' ')} {_figure(value)}" for name, value in figures.items())
        console.print(", ".join(words), soft_wrap=True)


def judge_campaign(
    failed: Sequence[int], seeds: int, *, flaw: str | None, console: Console, replay: str
) -> None:
    """A planted bug was found, or no promise was broken; PromiseBroken otherwise. `replay` is the
    command that runs the first seed that failed again.
    """
    if flaw is not None:
        if not failed:
            raise PromiseBroken(f"{flaw} was not found; seeds tried: {seeds}")
        console.print(f"{flaw} was found by seed {failed[0]}; seeds tried: {seeds}")
        console.print(f"see: {replay}", soft_wrap=True, highlight=False)
    elif failed:
        raise PromiseBroken(f"{len(failed)} of {seeds} seeds broke a promise; see: {replay}")


def _figure(value: object) -> str:
    if isinstance(value, dict):
        return "(" + ", ".join(f"{name} {one}" for name, one in value.items()) + ")"
    return str(value)
