"""What lies between the machines of a simulation: names, paths, listeners and connections.

Between every two machines there are two paths, one for each direction, and each of them may be
blocked or slow. A machine is reached by its name. A killed process has its connections reset by its
system; a machine that loses power leaves them silent, and answers nobody until it is up again.

`crashes_are_simple` holds for the seeds of one node that are kept for what they draw: a crash takes
what was under way with it, and who connects to a machine without power is refused at once.
"""

from collections.abc import Iterable, Iterator
from random import Random

from penstock.sim.link import Delays, Fate, Link, Path
from penstock.sim.listener import SimListener
from penstock.sim.loop import SimLoop
from penstock.sim.trace import Trace
from penstock.world.errors import NetworkError
from penstock.world.ports import Address

OWN_NAMES = frozenset({"", "0.0.0.0", "::", "localhost", "127.0.0.1", "::1"})
FIRST_FREE_PORT = 32768


class Wire:
    def __init__(
        self, loop: SimLoop, chance: Random, trace: Trace, *, crashes_are_simple: bool = False
    ) -> None:
        self.loop = loop
        self.trace = trace
        self.links: list[Link] = []
        self.delays = Delays(chance)
        self.short_chance = 0.0  # of a read or a write that moves less than it could
        self.links_made = 0
        self._crashes_are_simple = crashes_are_simple
        self._chance = chance
        self._listeners: dict[Address, SimListener] = {}  # by machine and port
        self._hosts: set[str] = set()
        self._off: set[str] = set()
        self._paths: dict[tuple[str, str], Path] = {}

    # Queries

    def resolve(self, name: str, *, asked_by: str) -> str:
        """The machine that a name means."""
        if name in OWN_NAMES:
            return asked_by
        if name not in self._hosts:
            raise NetworkError(f"cannot resolve {name}: Name or service not known")
        return name

    def path(self, source: str, target: str) -> Path:
        found = self._paths.get((source, target))
        if found is None:
            found = self._paths[source, target] = Path(self.delays)
        return found

    def answers(self, host: str, *, asked_by: str) -> bool:
        """Whether packets get to a machine that is on, and others back."""
        ways = self.path(asked_by, host), self.path(host, asked_by)
        return host not in self._off and not any(path.is_blocked for path in ways)

    def listener_at(self, place: Address) -> SimListener | None:
        found = self._listeners.get(place)
        return None if found is None or found.is_closed else found

    def free_port(self, host: str) -> int:
        port = FIRST_FREE_PORT
        while self.listener_at(Address(host=host, port=port)) is not None:
            port += 1
        return port

    def some_of(self, count: int) -> int:
        if count > 1 and self.short_chance and self._chance.random() < self.short_chance:
            return self._chance.randint(1, count)
        return count

    def live_links(self) -> list[Link]:
        self.links = [
            link for link in self.links if not link.is_reset and not link.closed_by_client
        ]
        return self.links

    def links_of(self, host: str) -> list[Link]:
        return [link for link in self.live_links() if link.joins(host)]

    def links_between(self, one: str, other: str) -> list[Link]:
        return [link for link in self.live_links() if link.joins(one) and link.joins(other)]

    def overdue(self, *, older_than_ms: int) -> Link | None:
        """A connection on which a request has waited for so long, and nothing explains it."""
        moment_us = self.loop.now_us - older_than_ms * 1000
        for link in self.live_links():
            if link.unanswered and link.unanswered[0] < moment_us and not self._excuses(link):
                return link
        return None

    def _excuses(self, link: Link) -> bool:
        blocked = link.requests.path.is_blocked or link.replies.path.is_blocked
        return blocked or self.loop.is_paused(link.server.host)

    # Commands

    def add_host(self, name: str) -> None:
        self._hosts.add(name)

    def take(self, place: Address, listener: SimListener) -> bool:
        """False when another has it."""
        if self.listener_at(place) is not None:
            return False
        self._listeners[place] = listener
        return True

    def connected(self, client: str, server: Address) -> Link:
        self.links_made += 1
        link = Link(
            loop=self.loop,
            trace=self.trace,
            number=self.links_made,
            client=client,
            server=server,
            there=self.path(client, server.host),
            back=self.path(server.host, client),
        )
        self.links.append(link)
        return link

    def block(self, sources: Iterable[str], targets: Iterable[str]) -> None:
        """Packets from the first to the second are lost; those the other way are not."""
        for source, target in _pairs(sources, targets):
            self.path(source, target).block()

    def unblock(self, sources: Iterable[str], targets: Iterable[str]) -> None:
        """Takes back one `block`: a path that two of them have blocked stays so."""
        for source, target in _pairs(sources, targets):
            path = self.path(source, target)
            if path.unblock():
                for link in self.links_between(source, target):
                    link.path_opens(path)
                    link.excuse()

    def part(self, some: Iterable[str], others: Iterable[str]) -> None:
        """No packet gets from one side to the other."""
        self.block(some, others)
        self.block(others, some)

    def join(self, some: Iterable[str], others: Iterable[str]) -> None:
        self.unblock(some, others)
        self.unblock(others, some)

    def process_killed(self, host: str) -> None:
        """The system of the machine closes what its process had open: peers are told at once."""
        self._stop_listening(host)
        for link in self.links_of(host):
            if self._crashes_are_simple:
                # Nobody reads what was sent to it; those who wait are told a moment later.
                link.silence()
                self.loop.call_outside(self.delays.us(), link.reset)
            else:
                link.lose_end(host, Fate.REFUSED)
                link.send_reset(host)

    def power_lost(self, host: str) -> None:
        """Peers are told nothing."""
        self._stop_listening(host)
        for link in self.links_of(host):
            if self._crashes_are_simple:
                link.silence()
            else:
                link.lose_end(host, Fate.DROPPED)
        if not self._crashes_are_simple:
            self._off.add(host)

    def machine_starts(self, host: str) -> None:
        """It answers, and knows of no connection from before."""
        self._off.discard(host)
        if not self._crashes_are_simple:
            self._forget_links(host)

    def server_is_up(self, host: str) -> None:
        if self._crashes_are_simple:
            self._forget_links(host)

    def excuse(self, host: str) -> None:
        """The machine could not have answered until now."""
        for link in self.links_of(host):
            link.excuse()

    def _forget_links(self, host: str) -> None:
        for link in self.links_of(host):
            link.forget(host)

    def _stop_listening(self, host: str) -> None:
        for place in [place for place in self._listeners if place.host == host]:
            del self._listeners[place]


def _pairs(sources: Iterable[str], targets: Iterable[str]) -> Iterator[tuple[str, str]]:
    targets = tuple(targets)
    return ((source, target) for source in sources for target in targets if source != target)
