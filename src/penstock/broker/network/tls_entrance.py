"""The entrance of a listener of TLS: the handshake, and the user that a certificate stands for."""

from penstock.security.distinguished_name import MalformedCertificate, subject_name
from penstock.security.principal import ANONYMOUS, USER, Principal
from penstock.security.principal_mapping import NoRuleMatches, Rule, user_of
from penstock.world.errors import HandshakeFailed
from penstock.world.ports import Listener, Stream
from penstock.world.tls import TlsContexts, TlsListener, enter


class TlsEntrance:
    """See `Entrance`. `rules` None: certificates are verified, and users log in by other means."""

    def __init__(self, contexts: TlsContexts, rules: tuple[Rule, ...] | None) -> None:
        self._contexts = contexts
        self._rules = rules

    def guarded(self, listener: Listener) -> Listener:
        return TlsListener(listener)

    async def enter(self, stream: Stream) -> Principal:
        certificate = await enter(stream, self._contexts)
        if certificate is None or self._rules is None:
            return ANONYMOUS
        try:
            return Principal(USER, user_of(subject_name(certificate), self._rules))
        except (NoRuleMatches, MalformedCertificate) as error:
            raise HandshakeFailed(stream.peer, str(error)) from error
