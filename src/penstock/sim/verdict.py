"""Runs a simulation to its end, and says in one line what was wrong, if anything was."""

import warnings
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

from penstock.sim.errors import Deadlock, Livelock, Violation
from penstock.sim.loop import SimLoop
from penstock.sim.trace import Trace


def verdict_of(
    loop: SimLoop, trace: Trace, simulation: Coroutine[Any, Any, None], *, log_lines: bool = False
) -> str | None:
    """None when all went well; told in the trace too. The loop is closed afterwards."""
    violation = None
    with _quiet(), trace.log_lines(wanted=log_lines):
        try:
            loop.run_until_complete(simulation)
        except (Violation, Deadlock, Livelock) as error:
            violation = str(error)
        except Exception as error:
            # An assert of ours or of a client: no simulation may end like that.
            violation = f"error: {where(error)}"
        finally:
            loop.close()
        if violation is not None:
            trace.note("verdict", violation)
    return violation


def where(failure: BaseException) -> str:
    """The error, and the line of our code that raised it."""
    trace = failure.__traceback__
    place = ""
    while trace is not None:
        code = trace.tb_frame.f_code
        place = f"{code.co_filename.rpartition('/penstock/')[2]}:{trace.tb_lineno}"
        trace = trace.tb_next
    return f"{type(failure).__name__}: {failure} at {place}"


@contextmanager
def _quiet() -> Iterator[None]:
    """A crash leaves coroutines that were never begun; nobody needs to be told of them."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="coroutine .* was never awaited")
        yield
