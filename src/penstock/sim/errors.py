"""What a simulation ends with: a promise broken, or a run that cannot go on."""

from penstock.model.error import PenstockError


class ProcessKilled(BaseException):
    """The process that made this call has crashed: not an error that its code could handle."""


class Violation(PenstockError):
    """A promise that was broken. `checker` names who saw it."""

    def __init__(self, checker: str, message: str) -> None:
        super().__init__(f"{checker}: {message}")
        self.checker = checker
        self.message = message


class Deadlock(PenstockError):
    """Nothing is ready, no timer runs, and somebody waits."""


class Livelock(PenstockError):
    """Work goes on and on without time passing."""
