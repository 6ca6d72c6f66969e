"""`penstock doctor --json` on a cluster, and its commands run as they are printed."""

import json
from collections.abc import Callable
from typing import Any

from rig.command import Outcome

Run = Callable[..., Outcome]


class Examined:
    """A cluster, as the doctor sees it each time it is asked."""

    def __init__(self, run: Run, bootstrap: str) -> None:
        self.run = run
        self.bootstrap = bootstrap

    def report(self, options: str = "") -> dict[str, dict[str, Any]]:
        """The checks by name."""
        outcome = self.run(f"doctor --json {options}", bootstrap=self.bootstrap)
        told = json.loads(outcome.out)
        assert outcome.status == (told["counts"]["fail"] > 0), outcome.err
        return {one["check"]: one for one in told["checks"]}

    def status(self, check: str, options: str = "") -> str:
        status = self.report(options)[check]["status"]
        assert isinstance(status, str)
        return status

    def mend(self, check: str, options: str = "") -> list[str]:
        """Runs every command that the check advises, and returns them."""
        commands = [
            one["command"]
            for one in self.report(options)[check]["faults"]
            if one["command"] is not None
        ]
        self._run_all(commands)
        return commands

    def mend_at_a_price(self, check: str, options: str = "") -> list[str]:
        """Runs the commands that stand at the end of what the check advises; returns all advice."""
        found = self.report(options)[check]["faults"]
        advice = [one["advice"] for one in found if one["advice"] is not None]
        self._run_all([one.rpartition(": ")[2] for one in advice])
        return advice

    def _run_all(self, commands: list[str]) -> None:
        for command in commands:
            assert command.startswith("penstock "), command
            done = self.run(command.removeprefix("penstock "), bootstrap=self.bootstrap)
            assert done.status == 0, (command, done.err)
