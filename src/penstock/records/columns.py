"""Records of many batches as columns: by the kernel where it was compiled, else by its twin."""

try:
    from penstock.records.kernel.columns import gather_columns
except ImportError:  # there was no compiler where this was installed
    from penstock.records.twin.columns import gather_columns

__all__ = ["gather_columns"]
