"""Places in a log, and the generations of those who write it."""

from typing import NewType

Offset = NewType("Offset", int)
LeaderEpoch = NewType("LeaderEpoch", int)

NO_OFFSET = Offset(-1)
NO_LEADER_EPOCH = LeaderEpoch(-1)
