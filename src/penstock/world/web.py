"""A document from an address of the web, off the loop."""

import asyncio
import urllib.error
import urllib.request

from penstock.world.errors import NetworkError

TIMEOUT_S = 10


async def read_address(url: str, *, bytes_max: int) -> bytes:
    """Up to so many bytes of it; NetworkError when it cannot be read in time."""
    return await asyncio.to_thread(_read, url, bytes_max)


def _read(url: str, bytes_max: int) -> bytes:
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:
            found: bytes = answer.read(bytes_max)
            return found
    except (OSError, ValueError) as error:
        raise NetworkError(f"{type(error).__name__}: {error}") from error
