"""Options of what clients may ask of the broker: connections, channels, messages, declarations.

Each limit stands in docs/limits.md with what happens at it. Invariant: 0 means "no limit" wherever
a description does not say otherwise.
"""

from __future__ import annotations

from typing import Final

from hareline.settings.section import Section, option
from hareline.settings.values import Octets

FRAME_MIN_BYTES: Final = 4096
MESSAGE_MAX_BYTES: Final = 536_870_912


class Limits(Section):
    """Limits on what one peer may ask of the broker."""

    frame_max_bytes: Octets = option(
        131_072,
        "Largest frame that is offered to a client, header and end octet included.",
        reload="live",
        ge=FRAME_MIN_BYTES,
        le=134_217_728,
    )
    channel_max: int = option(
        2047, "Channels a connection may open.", reload="live", ge=1, le=65535
    )
    heartbeat_s: int = option(
        60,
        "Heartbeat interval that is offered to a client; the client decides. 0 offers none.",
        reload="live",
        ge=0,
        le=65535,
    )
    handshake_timeout_s: float = option(
        10.0,
        "A connection that is not open after this time is dropped, and one over HTTP that has not "
        "sent the whole head of a request, or without a login its body, or takes nothing of the "
        "answer for so long.",
        reload="live",
        gt=0,
        le=3600,
    )
    authentication_timeout_s: float = option(
        10.0,
        "A connection that has not logged in after this time is dropped; without effect above "
        "handshake_timeout_s.",
        reload="live",
        gt=0,
        le=3600,
    )
    max_message_bytes: Octets = option(
        16_777_216,
        "Largest message body; a larger one closes its channel.",
        reload="live",
        ge=1,
        le=MESSAGE_MAX_BYTES,
    )
    large_message_bytes: Octets = option(
        1_048_576,
        "A larger body is never held in memory as a whole: it is written to a file of its own as "
        "it comes, and read from there as it is delivered.",
        ge=65_536,
        le=MESSAGE_MAX_BYTES,
    )
    max_connections: int = option(
        0, "Open connections of the whole broker; 0 means no limit.", reload="live", ge=0
    )
    max_connections_per_user: int = option(
        0,
        "Open connections of each user that has no limit of its own; 0 means no limit.",
        reload="live",
        ge=0,
    )
    max_connections_per_address: int = option(
        0,
        "Open connections from one IPv4 address, or from one /64 network of IPv6; 0 means no "
        "limit.",
        reload="live",
        ge=0,
    )
    max_http_connections: int = option(
        512,
        "Open sockets of the ports for HTTP; never more than a quarter of the descriptors that the "
        "process may have. 0 means no other limit.",
        reload="live",
        ge=0,
    )
    max_http_connections_per_address: int = option(
        128,
        "As max_http_connections, from one address; those that [management] names as proxies have "
        "no such limit. 0 means no limit.",
        reload="live",
        ge=0,
    )
    connection_rate: int = option(
        0,
        "New connections that may begin in a second, and that many at once; further ones wait, and "
        "are dropped if they would wait for half of handshake_timeout_s. 0 means no limit.",
        reload="live",
        ge=0,
    )
    connection_rate_per_address: int = option(
        0, "As connection_rate, for each address. 0 means no limit.", reload="live", ge=0
    )
    max_channels: int = option(
        0, "Open channels of the whole broker; 0 means no limit.", reload="live", ge=0
    )
    max_channels_per_user: int = option(
        0,
        "Open channels of each user that has no limit of its own, on all its connections; 0 means "
        "no limit.",
        reload="live",
        ge=0,
    )
    publish_rate_per_user: int = option(
        0,
        "Messages that each user without a limit of its own may publish in a second, on all its "
        "connections; above it they are read more slowly. 0 means no limit.",
        reload="live",
        ge=0,
    )
    publish_bytes_rate_per_user: Octets = option(
        0,
        "As publish_rate_per_user, in octets that its publishing connections send. 0 means no "
        "limit.",
        reload="live",
        ge=0,
    )
    max_vhosts: int = option(
        0,
        "Virtual hosts, those of the settings included, that may be made at run time; 0 means no "
        "limit.",
        reload="live",
        ge=0,
    )
    max_queues: int = option(
        0, "Queues of all virtual hosts together; 0 means no limit.", reload="live", ge=0
    )
    max_exchanges: int = option(
        0,
        "Exchanges of all virtual hosts together, with the seven that each begins with; 0 means no "
        "limit.",
        reload="live",
        ge=0,
    )
    max_bindings: int = option(
        0, "Bindings in all virtual hosts together; 0 means no limit.", reload="live", ge=0
    )
    max_arguments_bytes: Octets = option(
        65_536,
        "Octets of the arguments of one queue, exchange, binding or consumer; more are refused "
        "with 406. 0 means no limit but that of a frame.",
        reload="live",
        ge=0,
    )
    max_consumers_per_channel: int = option(
        0, "Consumers on one channel; 0 means no limit.", reload="live", ge=0
    )
    max_unacked_per_channel: int = option(
        0,
        "Deliveries on one channel that wait for an acknowledgement; a channel that has more is "
        "closed with 406 within a second or two. 0 means no limit.",
        reload="live",
        ge=0,
    )
    max_unacked_per_user: int = option(
        0,
        "As max_unacked_per_channel, of all channels of one user; the channel with the most is "
        "closed. 0 means no limit.",
        reload="live",
        ge=0,
    )
    max_selectors_per_queue: int = option(
        16_384,
        "Different selectors that the consumers of one queue may have, each of which may be tested "
        "against each message; a long one, or one that searches texts with LIKE, counts as "
        "several. One more is refused with 406. 0 means no limit.",
        reload="live",
        ge=0,
    )
    write_buffer_high_bytes: Octets = option(
        262_144,
        "Octets that may wait for a client's socket before deliveries to it are suspended.",
        reload="live",
        ge=FRAME_MIN_BYTES,
    )
