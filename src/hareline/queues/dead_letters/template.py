"""Template of the dead letters of messages that died alike, made once and remembered.

Called by ``dead_letters`` for each dead message. Messages that were published alike, with the same
history, and die of the same reason in the same second get the same headers, address and routing
keys; only their bodies and other properties differ.

Invariant: what is remembered of one queue has at most ``TEMPLATES_MAX_BYTES`` octets, and nothing
of an earlier second.                                                                        [hot]
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from hareline.message import Address, BlindAddress, Table, Timestamp, encode_fields
from hareline.queues.dead_letters.history import DeadMessage, History, record_death

if TYPE_CHECKING:
    from hareline.clock import Clock
    from hareline.queues.core.kinds import DeathReason
    from hareline.queues.dead_letters.targets import Target

# Of histories in remembered templates: some 200 short ones, no long one.
TEMPLATES_MAX_BYTES: Final = 65_536
TEMPLATE_MAX_BYTES: Final = 4_096
ADDRESSES_MAX: Final = 1024

# x-dead-text, in the headers for the default dead-letter exchange
TEXTS: Final = {
    "rejected": "a consumer rejected it",
    "expired": "its time to live has passed",
    "maxlen": "the queue was full",
    "delivery_limit": "it was delivered too often",
    "replaced": "a newer value took its place",
    "deleted": "the queue was deleted",
}


class DeathTemplate(NamedTuple):
    """The dead letter of all messages published alike that died alike, in this second.

    ``octets``: the headers that are added, ``history`` among them.
    """

    octets: bytes
    address: Address
    routing_keys: list[str]
    history: History


class DeathTemplates:
    """The templates of one queue."""

    __slots__ = ("_addresses", "_bytes", "_clock", "_queue_name", "_remembered", "_second")

    def __init__(self, queue_name: str, clock: Clock) -> None:
        self._queue_name = queue_name
        self._clock = clock
        self._remembered: dict[tuple[object, ...], DeathTemplate] = {}
        self._bytes = 0
        self._second = 0
        self._addresses: dict[tuple[str, str], Address] = {}

    @property
    def remembered(self) -> list[DeathTemplate]:
        """Those that need not be made for the next message of their kind."""
        return list(self._remembered.values())

    @property
    def remembered_bytes(self) -> int:
        """Octets of histories and headers that are remembered."""
        return self._bytes

    def template(
        self,
        address: Address,
        dead: DeadMessage,
        reason: DeathReason,
        target: Target,
        arrival_s: int = 0,
    ) -> DeathTemplate | None:
        """Return the part this dead letter shares with others; None: no letter may come of it.

        None is for a message that has died too often without a client (``record_death``).
        """
        second = self._clock.now_ms // 1000
        if second != self._second:
            self._forget()
            self._second = second
        if not target.is_default:
            arrival_s = 0  # only the default exchange is told the time of arrival
        expiration = dead.parts.expiration
        key = (dead.history, address, dead.copies, expiration, reason, target, arrival_s)
        template = self._remembered.get(key)
        if template is None:
            template = self._new_template(address, dead, reason, target, arrival_s)
            if template is not None:
                self._remember(key, template, len(dead.history) + len(template.octets))
        return template

    def _remember(self, key: tuple[object, ...], template: DeathTemplate, size: int) -> None:
        if size > TEMPLATE_MAX_BYTES:
            return
        if self._bytes + size > TEMPLATES_MAX_BYTES:
            self._forget()
        self._remembered[key] = template
        self._bytes += size

    def _forget(self) -> None:
        self._remembered.clear()
        self._bytes = 0

    def _new_template(
        self,
        address: Address,
        dead: DeadMessage,
        reason: DeathReason,
        target: Target,
        arrival_s: int,
    ) -> DeathTemplate | None:
        shown_keys = [address.routing_key, *dead.copies]
        history = record_death(
            dead.history,
            queue=self._queue_name,
            reason=reason,
            now_ms=self._clock.now_ms,
            exchange=address.exchange,
            routing_keys=shown_keys,
            expiration=dead.parts.expiration,
        )
        if history is None:
            return None
        octets = history.octets
        if target.is_default:
            headers = Table()
            headers["x-dead-reason"] = reason
            headers["x-dead-text"] = TEXTS[reason]
            headers["x-dead-queue"] = self._queue_name
            headers["x-dead-exchange"] = address.exchange
            headers["x-dead-routing-key"] = address.routing_key
            headers["x-dead-arrival"] = Timestamp(arrival_s)
            octets += encode_fields(headers)
        routing_keys = [target.routing_key] if target.routing_key is not None else shown_keys
        blind_keys = address.blind_keys if target.routing_key is None else ()
        new_address = self._address(target.exchange, routing_keys[0])
        if blind_keys:
            new_address = BlindAddress(new_address, blind_keys)
        return DeathTemplate(octets, new_address, [*routing_keys, *blind_keys], history)

    def _address(self, exchange: str, routing_key: str) -> Address:
        """The same object each time, since consumers remember what they write by it."""
        key = (exchange, routing_key)
        address = self._addresses.get(key)
        if address is None:
            if len(self._addresses) >= ADDRESSES_MAX:
                self._addresses.clear()
            address = self._addresses[key] = Address.of(exchange, routing_key)
        return address
