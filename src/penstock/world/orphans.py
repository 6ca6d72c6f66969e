"""Worker processes that never outlive the one that started them, however that ends."""

import multiprocessing
import os
import threading
from multiprocessing.connection import wait


def end_with_parent() -> None:
    """Called in the worker, as soon as it runs."""
    threading.Thread(target=_await_parents_end, daemon=True).start()


def _await_parents_end() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)
