"""Headers of the PROXY protocol, good and bad, and how much of a stream is read for them."""

from __future__ import annotations

import socket
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hareline.net.addresses import ProxyTls
from hareline.net.proxy_header import InvalidProxyHeader, ProxyHeader, ProxyHeaderReader

BEHIND = b"AMQP\x00\x00\x09\x01 and more of it"
SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"
V4 = ProxyHeader(("192.0.2.7", 40000), ("198.51.100.1", 5672))
V6 = ProxyHeader(("2001:db8::7", 40000), ("2001:db8::1", 5672))
NOTHING = ProxyHeader()


def read(stream: bytes) -> tuple[ProxyHeader | None, bytes]:
    """The header, and what is left of the stream; reads as much as the reader wants at a time."""
    reader = ProxyHeaderReader()
    while reader.header is None and stream:
        assert reader.wanted_bytes > 0
        octets, stream = stream[: reader.wanted_bytes], stream[reader.wanted_bytes :]
        reader.feed(octets)
    return reader.header, stream


def v2(body: bytes, family: int = 0x11, command: int = 0x21) -> bytes:
    return SIGNATURE + struct.pack(">BBH", command, family, len(body)) + body


def addresses(header: ProxyHeader) -> bytes:
    assert header.source is not None
    assert header.destination is not None
    kind = socket.AF_INET6 if ":" in header.source[0] else socket.AF_INET
    hosts = [socket.inet_pton(kind, host) for host in (header.source[0], header.destination[0])]
    return b"".join(hosts) + struct.pack(">HH", header.source[1], header.destination[1])


def field(kind: int, value: bytes) -> bytes:
    return struct.pack(">BH", kind, len(value)) + value


def tls(how: int, is_unverified: int, *fields: bytes) -> bytes:
    return field(0x20, struct.pack(">BL", how, is_unverified) + b"".join(fields))


CN, VERSION, CIPHER = field(0x22, b"shop"), field(0x21, b"TLSv1.3"), field(0x23, b"AES256")

GOOD = [
    (b"PROXY TCP4 192.0.2.7 198.51.100.1 40000 5672\r\n", V4),
    (b"PROXY TCP6 2001:db8::7 2001:db8::1 40000 5672\r\n", V6),
    (b"PROXY TCP4 1.1.1.1 1.1.1.1 0 1\r\n", ProxyHeader(("1.1.1.1", 0), ("1.1.1.1", 1))),
    (b"PROXY UNKNOWN\r\n", NOTHING),
    (b"PROXY UNKNOWN " + b"f" * 91 + b"\r\n", NOTHING),  # 107 octets, the most there may be
    (v2(addresses(V4)), V4),
    (v2(addresses(V6), family=0x21), V6),
    (v2(b"", command=0x20, family=0), NOTHING),
    (v2(addresses(V4), command=0x20), NOTHING),  # LOCAL: whatever follows
    (v2(b"", family=0), NOTHING),
    (v2(b"/run/some.sock".ljust(216, b"\0"), family=0x31), NOTHING),
    (v2(addresses(V4), family=0x12), NOTHING),  # datagrams
    (v2(addresses(V4) + field(0x05, b"unique") + field(0xE9, b"")), V4),
    (
        v2(addresses(V4) + tls(3, 0, VERSION, CIPHER, CN)),
        V4._replace(tls=ProxyTls("TLSv1.3", "AES256", "shop")),
    ),
    (v2(addresses(V4) + tls(3, 1, VERSION, CN)), V4._replace(tls=ProxyTls("TLSv1.3"))),
    (v2(addresses(V4) + tls(0, 0)), V4),
]


@pytest.mark.parametrize(("octets", "header"), GOOD)
def test_a_header_is_read_and_nothing_behind_it(octets: bytes, header: ProxyHeader) -> None:
    assert read(octets + BEHIND) == (header, BEHIND)


@pytest.mark.parametrize(("octets", "header"), GOOD)
def test_a_header_may_come_in_any_pieces(octets: bytes, header: ProxyHeader) -> None:
    reader = ProxyHeaderReader()
    for at in range(len(octets)):
        assert reader.header is None
        reader.feed(octets[at : at + 1])
    assert reader.header == header


@pytest.mark.parametrize(
    ("octets", "reason"),
    [
        (BEHIND, "begins with b'AMQP"),
        (b"GET / HTTP/1.1\r\n", "begins with"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01", "begins with"),
        (b"PROXY TCP5 192.0.2.7 198.51.100.1 1 2\r\n", "'TCP5' is not"),
        (b"PROXY TCP4 192.0.2.7 198.51.100.1 1\r\n", "3 fields"),
        (b"PROXY TCP4 192.0.2.7  198.51.100.1 1 2\r\n", "5 fields"),
        (b"PROXY TCP4 2001:db8::7 198.51.100.1 1 2\r\n", "2001:db8::7"),
        (b"PROXY TCP6 192.0.2.7 198.51.100.1 1 2\r\n", "192.0.2.7"),
        (b"PROXY TCP4 192.0.2.07 198.51.100.1 1 2\r\n", "192.0.2.07"),
        (b"PROXY TCP4 192.0.2.7 198.51.100.1 65536 2\r\n", "'65536' is not a port"),
        (b"PROXY TCP4 192.0.2.7 198.51.100.1 01 2\r\n", "'01' is not a port"),
        (b"PROXY TCP4 192.0.2.7 198.51.100.1 -1 2\r\n", "'-1' is not a port"),
        (b"PROXY TCP4 192.0.2.7 198.51.100.1 1 2\r \r\n", "5 fields"),
        ("PROXY TCP4 192.0.2.7 198.51.100.1 1 ²\r\n".encode(), "ASCII"),
        (b"PROXY UNKNOWN " + b"f" * 100, "a line without end"),
        (b"\r\n\r\n\x00\r\nQUIX\n\x21\x11\x00\x0c" + addresses(V4), "signature"),
        (v2(addresses(V4), command=0x31), "version 3"),
        (v2(addresses(V4), command=0x22), "command 2"),
        (v2(addresses(V4)[:-1]), "11 octets are too few"),
        (v2(addresses(V4) + b"\x05\x00"), "cut off"),
        (v2(addresses(V4) + b"\x05\x00\x04abc"), "0x05 is cut off"),
        (v2(addresses(V4) + field(0x20, b"\x01")), "TLS is cut off"),
        (v2(addresses(V4) + tls(1, 0, b"\x21\x00\x09x")), "0x21 is cut off"),
        (SIGNATURE + b"\x21\x11\xff\xff", "65535 octets"),
    ],
)
def test_anything_else_is_refused_with_the_reason(octets: bytes, reason: str) -> None:
    with pytest.raises(InvalidProxyHeader) as caught:
        read(octets)
    assert reason in str(caught.value)


@given(st.binary(max_size=300), st.sampled_from([b"", b"PROXY ", SIGNATURE, b"PROXY TCP4 "]))
def test_no_octets_make_it_fail_otherwise(octets: bytes, start: bytes) -> None:
    try:
        header, rest = read(start + octets)
    except InvalidProxyHeader:
        return
    assert header is not None or not rest
