"""TLS on the network: contexts that follow their files, listeners, and connections to servers.

    TlsContexts   the keys and rules of one listener or one client
    TlsListener   hands out streams that have not shaken hands yet: their owner does, with `enter`
    TlsNetwork    connects to servers of TLS

Files are looked at before each handshake, which costs two `stat`s beside a signature: new ones are
used from the next handshake on. Those that can't be used are told of once, and the former ones
stay. TLS 1.2 and 1.3 alone; no renegotiation, no compression, and no tickets. A client of TLS 1.2
may resume a session of the same context by its id, which Python cannot turn off: new files make a
new context, which knows none, and `tls_handshake` asks whether the certificate is still valid.
"""

import asyncio
import logging
import os
import ssl
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from penstock.model.error import PenstockError
from penstock.model.settings.setting import InvalidSetting, MissingSetting
from penstock.model.settings.tls import ClientAuth, TlsSettings
from penstock.world.cipher_names import cipher_choice
from penstock.world.errors import DiskError
from penstock.world.key_store import KeyStore, read_key_store, read_trust_store
from penstock.world.ports import (
    DEFAULT_OPTIONS,
    Address,
    Disk,
    Listener,
    Network,
    SocketOptions,
    Stream,
)
from penstock.world.tcp_stream import TcpStream
from penstock.world.tls_handshake import shake_hands
from penstock.world.tls_stream import TlsStream, reason_of

logger = logging.getLogger(__name__)

VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
VERIFY = {
    ClientAuth.NONE: ssl.CERT_NONE,
    ClientAuth.REQUESTED: ssl.CERT_OPTIONAL,
    ClientAuth.REQUIRED: ssl.CERT_REQUIRED,
}
# Python has a name for it from 3.12 on.
KERNEL_ENCRYPTS = getattr(ssl, "OP_ENABLE_KTLS", 0)


class TlsContexts:
    """The context of one listener (`of` names it) or client, made again when its files change."""

    def __init__(self, settings: TlsSettings, disk: Disk, *, server_side: bool, of: str) -> None:
        """InvalidSetting when keys or certificates are missing or can't be used."""
        self.turns = asyncio.Lock()  # see `tls_handshake`
        self._settings = settings
        self._disk = disk
        self._server_side = server_side
        self._of = of
        self._signatures = self._look()
        self._context = self._make()

    def current(self) -> ssl.SSLContext:
        signatures = self._look()
        if signatures != self._signatures:
            self._signatures = signatures  # those that can't be used are not tried twice either
            try:
                self._context = self._make()
            except PenstockError as error:
                logger.error("certificates=kept of=%s reason=%s", self._of, error)
            else:
                logger.info("certificates=reloaded of=%s", self._of)
        return self._context

    def _look(self) -> tuple[str, ...]:
        return tuple(self._signature(path) for path in self._settings.files)

    def _signature(self, path: str) -> str:
        try:
            return self._disk.signature(path)
        except DiskError as error:
            return error.reason

    def _make(self) -> ssl.SSLContext:
        make = server_context if self._server_side else client_context
        return make(self._settings, self._disk)


class TlsListener:
    """`Listener` of ports: `accept` gets a `TlsStream` that has yet to be entered."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener

    @property
    def address(self) -> Address:
        return self._listener.address

    def listen(self, accept: Callable[[Stream], None]) -> None:
        def accept_tcp(stream: Stream) -> None:
            assert isinstance(stream, TcpStream), "TLS stands on TCP"
            accept(TlsStream(stream))

        self._listener.listen(accept_tcp)

    def close(self) -> None:
        self._listener.close()


async def enter(stream: Stream, contexts: TlsContexts) -> bytes | None:
    """The server's side of the handshake: the client's certificate, if it has shown one. Failures
    as those of `shake_hands`.
    """
    assert isinstance(stream, TlsStream), "a stream of a TlsListener"
    await shake_hands(stream, contexts.current(), contexts.turns, host=None)
    return stream.certificate


class TlsNetwork:
    """Another network, with TLS on each connection that is made. Listeners are not affected."""

    def __init__(self, network: Network, contexts: TlsContexts) -> None:
        self._network = network
        self._contexts = contexts

    async def bind(self, address: Address, options: SocketOptions = DEFAULT_OPTIONS) -> Listener:
        return await self._network.bind(address, options)

    async def connect(self, address: Address) -> Stream:
        tcp = await self._network.connect(address)
        assert isinstance(tcp, TcpStream), "TLS stands on TCP"
        stream = TlsStream(tcp)
        try:
            context = self._contexts.current()
            await shake_hands(stream, context, self._contexts.turns, host=address.host)
        except BaseException:
            stream.close()
            raise
        return stream

    def host_name(self) -> str:
        return self._network.host_name()


def server_context(settings: TlsSettings, disk: Disk) -> ssl.SSLContext:
    context = _context(settings, ssl.PROTOCOL_TLS_SERVER)
    _load_key(context, read_key_store(settings, disk))
    context.verify_mode = VERIFY[settings.ssl_client_auth]
    if settings.ssl_client_auth is not ClientAuth.NONE:
        trusted = read_trust_store(settings, disk)
        if trusted is None:
            # Java would trust every public authority then, and so would let anybody in.
            raise MissingSetting(
                "ssl.truststore.location",
                f"ssl.client.auth={settings.ssl_client_auth} needs the authorities that sign"
                " certificates of clients",
            )
        _trust(context, trusted)
    return context


def client_context(settings: TlsSettings, disk: Disk) -> ssl.SSLContext:
    context = _context(settings, ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = settings.ssl_endpoint_identification_algorithm == "https"
    if settings.has_key:
        _load_key(context, read_key_store(settings, disk))
    trusted = read_trust_store(settings, disk)
    if trusted is None:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    else:
        _trust(context, trusted)
    return context


def _context(settings: TlsSettings, side: int) -> ssl.SSLContext:
    context = ssl.SSLContext(side)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION | ssl.OP_NO_TICKET
    if settings.penstock_ssl_kernel_enable:
        context.options |= KERNEL_ENCRYPTS
    if side == ssl.PROTOCOL_TLS_SERVER:
        context.num_tickets = 0
    spoken = [VERSIONS[protocol] for protocol in settings.ssl_enabled_protocols]
    if settings.ssl_cipher_suites:
        spoken = _choose_ciphers(context, settings.ssl_cipher_suites, spoken)
    context.minimum_version, context.maximum_version = min(spoken), max(spoken)
    # A certificate in a trust store is trusted, as in Java, even if another one has signed it.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


def _choose_ciphers(
    context: ssl.SSLContext, suites: tuple[str, ...], spoken: list[ssl.TLSVersion]
) -> list[ssl.TLSVersion]:
    """The versions that are left with these suites."""
    choice = cipher_choice(suites)
    left = [
        version
        for version in spoken
        if (choice.has_newest if version is ssl.TLSVersion.TLSv1_3 else choice.older)
    ]
    shown = ",".join(suites)
    if not left:
        raise InvalidSetting(
            name="ssl.cipher.suites", value=shown, expected="None is of ssl.enabled.protocols"
        )
    if choice.older:
        try:
            context.set_ciphers(":".join(choice.older))
        except ssl.SSLError:
            raise InvalidSetting(
                name="ssl.cipher.suites", value=shown, expected="OpenSSL knows none of them"
            ) from None
    return left


def _load_key(context: ssl.SSLContext, store: KeyStore) -> None:
    # Without a password OpenSSL would ask for one at the terminal.
    password = store.password or ""
    try:
        with _as_file(store.key + store.chain) as path:
            context.load_cert_chain(path, password=password)
    except (ssl.SSLError, ValueError) as error:
        reason = reason_of(error) if isinstance(error, ssl.SSLError) else str(error)
        raise InvalidSetting(
            name=store.setting,
            value=store.shown,
            expected="A private key that ssl.key.password opens, if it has one, and the certificate"
            f" that belongs to it are needed: {reason}",
        ) from None


def _trust(context: ssl.SSLContext, trusted: str) -> None:
    try:
        context.load_verify_locations(cadata=trusted)
    except ssl.SSLError as error:
        raise InvalidSetting(
            name="ssl.truststore.location", value="[hidden]", expected=reason_of(error)
        ) from None


@contextmanager
def _as_file(text: str) -> Iterator[str]:
    """Python takes a private key from a file alone: one in memory, where there is such a thing."""
    data = text.encode()
    if hasattr(os, "memfd_create") and os.path.isdir("/proc/self/fd"):
        descriptor = os.memfd_create("penstock-key")
        try:
            os.write(descriptor, data)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    descriptor, path = tempfile.mkstemp()  # which nobody else may read
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
        yield path
    finally:
        os.remove(path)
