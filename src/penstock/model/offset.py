"""Places in a log, and the generations of those who write it."""

from typing import Final, NewType

Offset = NewType("Offset", int)
LeaderEpoch = NewType("LeaderEpoch", int)

NO_OFFSET: Final = Offset(-1)
NO_LEADER_EPOCH: Final = LeaderEpoch(-1)
