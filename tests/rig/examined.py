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
        for command in commands:
            done = self.run(command.removeprefix("penstock "), bootstrap=self.bootstrap)
            assert done.status == 0, (command, done.err)
        return commands
