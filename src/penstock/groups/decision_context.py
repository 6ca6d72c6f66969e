"""What a coordinator's decision may read besides its own state."""

from collections.abc import Callable

from penstock.metadata.effective import effective_group
from penstock.metadata.image.image import Image
from penstock.model.lazy_dataclass import dataclass
from penstock.model.settings.groups import GroupSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionContext:
    """The cluster, the settings and the two clocks, as of one decision."""

    image: Image
    settings: GroupSettings
    now_ms: int  # of the wall clock: for what is stored or shown
    monotonic_ms: int  # for deadlines
    fresh_id: Callable[[], str]  # another one at each call, in the text form of a topic id
    members_on_node: int  # of all groups together, to pace their heartbeats
    # Whether the client that asks may describe a topic; None where everyone may.
    may_describe: Callable[[str], bool] | None = None

    def settings_of(self, group_id: str) -> GroupSettings:
        """The settings with those of the group itself applied."""
        return effective_group(group_id, self.image, self.settings)
