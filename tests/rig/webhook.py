"""A receiver of webhooks on a thread of its own, which keeps what it was sent."""

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from rig.cluster_questions import until

OK = 204
AWAY = 503


class Receiver:
    """`answers` are the statuses of the first requests; later ones get OK. While it `is_away` all
    get an error, and are only counted.
    """

    def __init__(self, answers: Sequence[int] = ()) -> None:
        self.is_away = False
        self.missed = 0
        self.requests: list[tuple[str, dict[str, str], dict[str, Any]]] = []
        self._answers = list(answers)
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if receiver.is_away:
                    receiver.missed += 1
                    self.send_response(AWAY)
                    self.end_headers()
                    return
                request = (self.path, dict(self.headers.items()), json.loads(body))
                receiver.requests.append(request)
                self.send_response(receiver._answers.pop(0) if receiver._answers else OK)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, name="webhook")
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/hook?of=test"

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [body for _, _, body in self.requests]

    def told(self, alert: str) -> list[tuple[str, str]]:
        """State and subject of each report of the alert, in their order."""
        return [(one["state"], one["subject"]) for one in self.bodies if one["alert"] == alert]

    def until(self, alert: str, state: str, *, times: int = 1) -> dict[str, Any]:
        """The report, once there are so many of them."""

        def found() -> list[dict[str, Any]]:
            return [one for one in self.bodies if one["alert"] == alert and one["state"] == state]

        until(f"{alert} {state}", lambda: len(found()) >= times)
        return found()[-1]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@contextmanager
def receiver(*answers: int) -> Iterator[Receiver]:
    made = Receiver(answers)
    try:
        yield made
    finally:
        made.close()
