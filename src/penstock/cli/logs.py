"""Log lines of a node: one event a line, key=value, on standard error."""

import logging
import sys
import time

from penstock.cli.escape import escaped


class KeyValueFormatter(logging.Formatter):
    """`time=... level=... at=...`, then what the event says of itself."""

    def format(self, record: logging.LogRecord) -> str:
        at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line = (
            f"time={at}.{int(record.msecs):03d}Z level={record.levelname.lower()}"
            f" at={record.name} {escaped(record.getMessage())}"
        )
        if record.exc_info:
            trace = self.formatException(record.exc_info).split("\n")
            line += "".join(f"\n{escaped(one)}" for one in trace)
        return line


def log_to_stderr(level: int = logging.INFO) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(KeyValueFormatter())
    logging.basicConfig(level=level, handlers=[handler])
