"""What docs/testing.md shows works."""

import re
import subprocess
import sys
from pathlib import Path

from penstock.testing import Broker
from rig.held_port import HeldPort
from rig.source_tree import ROOT

GUIDE = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")


def test_every_test_that_it_shows_passes(tmp_path: Path) -> None:
    shown = "\n".join(re.findall(r"^```python\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL))
    port = HeldPort()
    assert "19092" in shown
    (tmp_path / "test_guide.py").write_text(shown.replace("19092", str(port.number)))
    command = [sys.executable, "-m", "pytest", "-q", "--strict-markers", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, str(tmp_path)], capture_output=True, text=True, timeout=300, cwd=tmp_path
    )
    count = len(re.findall(r"^def test_", shown, re.MULTILINE))
    assert f"{count} passed" in done.stdout, done.stdout + done.stderr


def test_it_names_every_public_method() -> None:
    public = {name for name in vars(Broker) if not name.startswith("_")}
    assert public <= set(re.findall(r"`(\w+)[`(]", GUIDE))
