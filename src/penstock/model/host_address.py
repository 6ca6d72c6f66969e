"""One text for each address, so that hosts can be compared as texts.

An address has many forms: `2001:db8:0:0:0:0:0:1` is `2001:db8::1`, and a client of IPv4 at a
listener of `[::]` is `::ffff:10.0.0.5`. The zone of a link-local address (`%eth0`) is left out: it
is a name of one machine, and a request that a node forwards does not have it.
"""

from ipaddress import IPv6Address, ip_address


def comparable_host(host: str) -> str:
    """The one form of an address, which for IPv4 is the dotted one; any other text as it is."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return host
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(address if mapped is None else mapped)
