"""How the descriptors that the system allows are shared out between files and connections.

Where there are plenty, files have as many as `model/limit` says; where there are few, a quarter of
them. Some of the files' share goes to what is opened for a moment and counted by nobody.
"""

import resource
import sys

from penstock.model import limit

FILES_OF_FEW = 4  # one in so many
UNCOUNTED_OF_FILES = 9  # likewise
UNCOUNTED_MIN = 8


def connection_descriptor_max() -> int:
    """The highest descriptor that a connection may have: the system gives the lowest one free."""
    soft = allowed()
    return sys.maxsize if soft is None else soft - 1 - _kept_for_files(soft)


def open_files_max() -> int:
    """How many files of a log may be open at once."""
    soft = allowed()
    if soft is None:
        return limit.OPEN_FILES_MAX
    kept = _kept_for_files(soft)
    return max(1, kept - max(UNCOUNTED_MIN, kept // UNCOUNTED_OF_FILES))


def allowed() -> int | None:
    """How many descriptors this process may have; None: no end of them."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft


def _kept_for_files(soft: int) -> int:
    return min(limit.DESCRIPTORS_KEPT, soft // FILES_OF_FEW)
