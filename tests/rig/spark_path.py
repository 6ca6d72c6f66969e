"""Where the Python processes that Spark starts find the rig."""

import os

from rig.source_tree import ROOT


def python_path() -> str:
    """For PYTHONPATH: the tests, before whatever is there already."""
    known = os.environ.get("PYTHONPATH")
    return os.pathsep.join(filter(None, (str(ROOT / "tests"), known)))
