"""Lists of networks, and whether an address is in one of them.

The settings name networks whose word is taken: proxies that say for whom they speak. ``net`` and
``management`` ask here. Invariant: an address that cannot be read is in no network, and an IPv4
address is the same one whether it is written plainly or mapped into IPv6.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import TypeAlias

IPAddress: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address


def address_of(host: str) -> IPAddress | None:
    """The address that a text stands for, without scope; None if it is not an address."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


class Networks:
    """Addresses and networks in CIDR form, such as ``192.0.2.7`` and ``10.0.0.0/8``."""

    __slots__ = ("_networks",)

    def __init__(self, texts: Iterable[str] = ()) -> None:
        """Raises ValueError for a text that is neither."""
        self._networks = tuple(ipaddress.ip_network(text) for text in texts)

    def __contains__(self, host: object) -> bool:
        address = address_of(host) if isinstance(host, str) else None
        return address is not None and any(address in network for network in self._networks)

    def __bool__(self) -> bool:
        return bool(self._networks)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Networks) and self._networks == other._networks

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<Networks {', '.join(map(str, self._networks))}>"
