"""A disk that fails under a running node: the folder is there, and each read and write is an error.

It is an ext4 filesystem in a file, mounted by a loop device. `fail` shuts the filesystem down (the
ioctl FS_IOC_SHUTDOWN); from then on each operation, on open files too, fails with EIO, as it does
when a device is lost. That needs root, and a kernel and a container that allow mounts: `why_not`
says what is missing. File permissions are no substitute: they bind neither root nor open files.
"""

import fcntl
import os
import shutil
import struct
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Self

SHUTDOWN = 0x8004587D  # FS_IOC_SHUTDOWN
WITHOUT_FLUSH = struct.pack("I", 2)  # what is not on the disk yet does not get there
SIZE_BYTES = 256 * 1024 * 1024  # sparse: a file takes what is written


class FailingDisk:
    """Mounted over a folder, whose files it holds then. Use as a context, around all that has files
    open there.
    """

    def __init__(self, image: Path, at: Path) -> None:
        self.at = at
        with tempfile.TemporaryDirectory() as kept:
            shutil.copytree(at, kept, dirs_exist_ok=True)
            _mount(image, at)
            shutil.copytree(kept, at, dirs_exist_ok=True)

    def fail(self) -> None:
        directory = os.open(self.at, os.O_RDONLY)
        try:
            fcntl.ioctl(directory, SHUTDOWN, WITHOUT_FLUSH)
        finally:
            os.close(directory)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        subprocess.run(["umount", str(self.at)], check=True, capture_output=True)


@cache
def why_not() -> str | None:
    """What keeps this machine from having such a disk; None if nothing does."""
    if os.geteuid() != 0:
        return "only root can mount a filesystem"
    for tool in ("mkfs.ext4", "mount", "umount"):
        if shutil.which(tool) is None:
            return f"there is no {tool}"
    with tempfile.TemporaryDirectory() as folder:
        at = Path(folder) / "disk"
        at.mkdir()
        try:
            with (
                FailingDisk(Path(folder) / "image", at) as disk,
                open(at / "file", "ab", buffering=0) as file,
            ):
                disk.fail()
                try:
                    file.write(b"x")
                except OSError:
                    return None
                return "a filesystem that was shut down still takes writes"
        except subprocess.CalledProcessError as error:
            return f"a loop device cannot be mounted: {error.stderr.decode().strip()}"
        except OSError as error:
            return f"a filesystem cannot be shut down: {error}"


def _mount(image: Path, at: Path) -> None:
    with image.open("wb") as file:
        file.truncate(SIZE_BYTES)
    for command in (
        ["mkfs.ext4", "-q", "-F", str(image)],
        ["mount", "-o", "loop", str(image), str(at)],
    ):
        subprocess.run(command, check=True, capture_output=True)
    (at / "lost+found").rmdir()
