"""The latest offset of each key: by the kernel where it was compiled, else by its twin."""

from penstock.records.twin.keys import LATEST, SUPERSEDED, TOMBSTONE

try:
    from penstock.records.kernel.keys import KeyOffsets
except ImportError:  # there was no compiler where this was installed
    from penstock.records.twin.keys import (  # type: ignore[assignment]  # a class with the same face
        KeyOffsets,
    )

__all__ = ["LATEST", "SUPERSEDED", "TOMBSTONE", "KeyOffsets"]
