"""What a controller's decision may read, and how it refuses a part of a request."""

from collections.abc import Sequence

from penstock.metadata.controller.broker_sessions import BrokerSessions
from penstock.metadata.controller.state import ControllerState
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId, TopicId
from penstock.model.lazy_dataclass import dataclass
from penstock.model.offset import Offset
from penstock.model.settings.broker import BrokerSettings
from penstock.security.principal import ANONYMOUS, Principal


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionContext:
    """The cluster as the controller knows it, uncommitted records included."""

    state: ControllerState  # to be read only
    sessions: BrokerSessions  # to be read only
    now_ms: int  # monotonic, as in the sessions
    wall_ms: int  # since 1970
    cluster_id: str
    node_id: NodeId  # of the controller
    settings: BrokerSettings  # and its own, for what a request leaves open
    next_offset: Offset  # that the decision's first record will have
    fresh_ids: Sequence[TopicId]  # at least one for each topic or entry that a request may create
    requester: Principal = ANONYMOUS  # the client that asks, if there is one


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why one part of a request was not done; the other parts may have been."""

    code: ErrorCode
    message: str | None = None
