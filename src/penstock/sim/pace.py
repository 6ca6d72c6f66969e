"""How the monotonic clock of one machine runs against virtual time: where it began, how fast."""

from dataclasses import dataclass

PPM = 1_000_000  # drift is in parts per million; clocks of real machines stay below some hundred


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    offset_us: int = 0  # what the clock showed when the simulation began
    drift_ppm: int = 0  # how many microseconds it gains, or loses, in each second

    def __post_init__(self) -> None:
        assert self.offset_us >= 0
        assert self.drift_ppm > -PPM

    def shown_us(self, true_us: int) -> int:
        """What the clock shows at a moment of virtual time."""
        return self.offset_us + true_us + true_us * self.drift_ppm // PPM

    def reached_us(self, shown_us: int) -> int:
        """The first moment of virtual time at which the clock shows this much."""
        return -(-(shown_us - self.offset_us) * PPM // (PPM + self.drift_ppm))


TRUE_PACE = Pace()
