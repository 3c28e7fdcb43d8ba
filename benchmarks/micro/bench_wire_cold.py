"""What the control plane's codec costs: tables, properties, methods; pamqp beside it.

    python -m benchmarks.micro.bench_wire_cold [--json FILE] [--repetitions N]

Methods are paid per declare, bind, consume and so on; properties and headers once per message that
something looks into (headers exchanges, CC, expiration, dead-lettering).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from pamqp import frame as pamqp_frame

from benchmarks.micro.timing import finish, measure
from hareline.wire.methods import Frame, commands, decode_method, encode_method
from hareline.wire.properties import (
    Properties,
    decode_headers,
    decode_properties,
    encode_properties,
    replace_headers,
)
from hareline.wire.table import Table, Timestamp, decode_table, encode_table

OPERATIONS = 20_000

HEADERS = Table({"tenant": "acme", "attempt": 3, "is_urgent": True})
PROPERTIES = Properties(
    content_type="application/json",
    headers=HEADERS,
    delivery_mode=2,
    correlation_id="2f6d9d4e",
    expiration="60000",
    timestamp=Timestamp(1_700_000_000),
)
DECLARE = {
    "queue": "orders",
    "durable": True,
    "arguments": {"x-max-length": 1000, "x-overflow": "drop-head"},
}


def main() -> None:
    bench_tables()
    bench_properties()
    bench_methods()
    finish()


def bench_tables() -> None:
    octets = encode_table(HEADERS)
    death: dict[str, object] = {
        "count": 1,
        "reason": "expired",
        "queue": "orders",
        "time": Timestamp(1_700_000_000),
        "exchange": "",
        "routing-keys": ["orders"],
    }
    deaths = encode_table({"x-death": [death] * 3})
    repeat("decode a table of 3 fields", lambda: decode_table(octets, 0))
    repeat("encode a table of 3 fields", lambda: encode_table(HEADERS))
    repeat("decode x-death of 3 entries", lambda: decode_table(deaths, 0), 4)


def bench_properties() -> None:
    octets = encode_properties(PROPERTIES)
    repeat("decode delivery-mode alone", lambda: decode_properties(b"\x10\x00\x02"))
    repeat("decode 6 properties", lambda: decode_properties(octets))
    repeat("decode the headers of 6 properties", lambda: decode_headers(octets))
    repeat("encode 6 properties", lambda: encode_properties(PROPERTIES))
    repeat("replace the headers of 6 properties", lambda: replace_headers(octets, HEADERS))


def bench_methods() -> None:
    declare = encode_method(1, commands.Queue.Declare, **DECLARE)
    qos = encode_method(1, commands.Basic.Qos, prefetch_count=10)
    for name, frame in (("queue.declare with 2 arguments", declare), ("basic.qos", qos)):
        repeat(f"decode {name}", decode_payload(frame))
        repeat(f"decode {name}, pamqp", partial(pamqp_frame.unmarshal, frame))
    declare_ok = {"queue": "orders", "message_count": 7, "consumer_count": 1}
    repeat(
        "encode queue.declare-ok", lambda: encode_method(1, commands.Queue.DeclareOk, **declare_ok)
    )
    repeat(
        "encode queue.declare-ok, pamqp",
        lambda: pamqp_frame.marshal(commands.Queue.DeclareOk("orders", 7, 1), 1),
    )


def decode_payload(frame: bytes) -> Callable[[], Frame]:
    payload = frame[7:-1]
    return lambda: decode_method(payload)


def repeat(name: str, operation: Callable[[], object], slower: int = 1) -> None:
    """Measure one operation; ``slower`` takes that many times fewer of them."""
    operations = OPERATIONS // slower

    def loop() -> None:
        for _ in range(operations):
            operation()

    measure(name, loop, operations)


if __name__ == "__main__":
    main()
