"""Reading single records: by the kernel where it was compiled, else by its twin.

`KERNEL` says which. `write` and `keys` are the doors to the other parts of the two.
"""

from enum import Enum

try:
    from penstock.records.kernel.walk import check_records, read_columns, read_records

    COMPILED = True
except ImportError:  # there was no compiler where this was installed
    from penstock.records.twin.walk import check_records, read_columns, read_records

    COMPILED = False

__all__ = ["KERNEL", "Kernel", "check_records", "read_columns", "read_records"]


class Kernel(Enum):
    """Which one looks at single records. The answers are the same, the speed is not."""

    COMPILED = "compiled"
    PYTHON = "python"


KERNEL = Kernel.COMPILED if COMPILED else Kernel.PYTHON
