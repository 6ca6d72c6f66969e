"""The life of one connection, from its first byte to its last, and what ended it.

Apart from `connection` because that is compiled: a compiled coroutine must not wait while it
handles an exception (docs/adr/0015), which is just what leaving a task group means.
"""

import asyncio
import logging

from penstock.broker.network.connection import Connection
from penstock.model.error import CloseConnection
from penstock.model.events import DISK_READ_DELAYED, DISK_READ_FAILED
from penstock.wire.errors import MalformedMessage
from penstock.world.errors import FileNotSent, NetworkError
from penstock.world.event_log import tell
from penstock.world.tasks import TaskGroup

logger = logging.getLogger(__name__)


async def converse(connection: Connection) -> None:
    """Serves until the peer closes, breaks the protocol, or is closed."""
    try:
        async with TaskGroup() as waiting:
            try:
                await connection.serve(waiting)
            finally:
                # What came with the last bytes begins before it is cancelled: a coroutine that
                # never began takes with it, unawaited, those that it was given.
                await asyncio.sleep(0)
            # Nobody is there any more for whom these would wait.
            waiting.cancel()
    except FileNotSent as error:
        tell(
            logger,
            DISK_READ_DELAYED if error.full else DISK_READ_FAILED,
            file=error.path,
            reason=error.reason,
        )
    except NetworkError:
        pass  # the peer has gone; there is nobody to tell
    except (CloseConnection, MalformedMessage) as error:
        connection.log_closed(str(error))
    finally:
        connection.ended()
