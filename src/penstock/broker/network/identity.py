"""Who is on the other end of one connection.

Authentication, by SASL or by a certificate, sets the principal. Dispatch reads it for each request.
"""

from penstock.model.lazy_dataclass import dataclass
from penstock.security.principal import ANONYMOUS, Principal


@dataclass(slots=True, kw_only=True)
class ConnectionIdentity:
    """Made with its connection; changes when the client authenticates."""

    principal: Principal = ANONYMOUS
