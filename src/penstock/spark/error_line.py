"""The line of an error that says what is wrong, found in the pages that Spark puts around it.

Spark reports an error of a Python source or sink as the Python traceback, with its own state and
the plan of the query after it. `print_error_line_last` repeats our line below that, where a
program ends with such an error.
"""

import sys
from types import TracebackType

OWN_ERROR = "penstock."

_printed_last = False  # by a hook of this program


def own_error_line(text: str) -> str | None:
    """The last error of Penstock that the text of an exception has, without the error's class."""
    lines = [line.strip() for line in text.splitlines()]
    own = [line for line in lines if line.startswith(OWN_ERROR) and ": " in line]
    return own[-1].split(": ", 1)[1] if own else None


def print_error_line_last() -> None:
    """For exceptions that nobody catches; whoever prints them now still does."""
    global _printed_last
    if _printed_last:
        return  # another session of this program has done it
    _printed_last = True
    print_traceback = sys.excepthook

    def print_with_line(
        kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        print_traceback(kind, error, trace)
        line = own_error_line(str(error))
        if line is not None:
            print(f"penstock: {line}", file=sys.stderr, flush=True)

    sys.excepthook = print_with_line
