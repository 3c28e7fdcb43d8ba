"""What a real stream has, in octets, by the broker's range reads over HTTP and no Spark."""

from __future__ import annotations

from typing import NamedTuple

from hareline.spark.reading.client import StreamClient
from hareline.wire.property_parts import take_apart
from tests.support.broker_process import BrokerProcess
from tests.support.sink_broker import connection_to

_HAS_HEADERS = 0x20


class Content(NamedTuple):
    """Properties with their flags, and the body, as they go over the wire."""

    properties: bytes
    body: bytes

    @property
    def headers(self) -> bytes | None:
        """The headers table with its length; None if there is none."""
        if not self.properties[0] & _HAS_HEADERS:
            return None
        fields = bytes(take_apart(self.properties).fields)
        return len(fields).to_bytes(4, "big") + fields


def contents_of(broker: BrokerProcess, queue: str) -> list[Content]:
    """All messages of a stream, from its first offset on."""
    http_url = f"http://{broker.host}:{broker.management_port}"
    client = StreamClient(connection_to(broker, httpUrl=http_url), timeout_s=30, retries=1)
    tail = client.tail(queue)
    contents = []
    for chunk in client.chunks(queue, tail.first, tail.next, tail.incarnation):
        count, columns = chunk.header.count, chunk.columns
        meta_sizes = memoryview(columns)[count * 8 : count * 12].cast("I")
        body_sizes = memoryview(columns)[count * 12 : count * 16].cast("I")
        meta_at = count * 16
        body_at = meta_at + chunk.header.metas_size
        for meta_size, body_size in zip(meta_sizes, body_sizes, strict=True):
            meta = bytes(columns[meta_at : meta_at + meta_size])
            address = 2 + meta[0] + meta[1 + meta[0]]  # exchange and routing key
            contents.append(Content(meta[address:], bytes(columns[body_at : body_at + body_size])))
            meta_at += meta_size
            body_at += body_size
    return contents
