"""Which product is named to whom: by listener, by what came from an address, and for how long."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from hareline import events
from hareline.amqp.product import (
    HOST_VALID_DAYS,
    HOSTS_MAX,
    PROBE_VALID_MS,
    QPID_PROPERTIES,
    ProductNames,
    is_probe,
    is_qpid,
)
from hareline.clock import ManualClock
from hareline.errors import StoreError
from hareline.events import Event
from hareline.storage.interface import HostStore
from hareline.wire.constants import PROTOCOL_HEADER
from hareline.wire.methods import commands

from .peer import Peer, SteppedBroker

USUAL, QPIDS = "RabbitMQ", "RabbitMQ (qpid)"
DAY_MS = 24 * 60 * 60 * 1000
PROBE_0_10 = b"AMQP\x01\x01\x00\x0a"
PROBE_0_8 = b"AMQP\x01\x01\x08\x00"


class Hosts(HostStore):
    """Keeps hosts in memory; ``failure`` makes every change raise."""

    def __init__(self, kept: dict[str, int] | None = None) -> None:
        self.kept = dict(kept or {})
        self.writes = 0
        self.failure = ""

    def hosts(self) -> list[tuple[str, int]]:
        return list(self.kept.items())

    def remember_host(
        self, host: str, seen_day: int, on_lost: Callable[[StoreError], None]
    ) -> None:
        self._change()
        self.kept.pop(host, None)
        self.kept[host] = seen_day

    def forget_hosts(self, hosts: Iterable[str]) -> None:
        self._change()
        for host in hosts:
            self.kept.pop(host, None)

    def _change(self) -> None:
        if self.failure:
            raise StoreError(self.failure)
        self.writes += 1


class Stand:
    """``products`` with a clock that is moved by hand, and what they reported."""

    def __init__(self, hosts: Hosts | None = None, qpid_product: str = QPIDS) -> None:
        self.clock = ManualClock()
        self.reported: list[tuple[Event, dict[str, object]]] = []
        self.products = ProductNames(USUAL, qpid_product, self.clock, self._report)
        if hosts is not None:
            self.products.keep_in(hosts)

    def _report(self, event: Event, **fields: object) -> None:
        self.reported.append((event, fields))

    @property
    def today(self) -> int:
        return self.clock.now_ms // DAY_MS

    def told(self, host: str, listener_product: str = "") -> str:
        return self.products.for_connection(host, listener_product)

    def know(self, host: str) -> None:
        """A Qpid client came from there, in its usual way."""
        self.products.on_probe(host)
        self.products.on_client(host)


@pytest.fixture
def stand() -> Stand:
    return Stand()


@pytest.mark.parametrize(
    ("header", "is_one"),
    [
        (PROBE_0_10, True),
        (b"AMQP\x01\x01\x00\x09", True),
        (PROBE_0_8, True),
        (b"AMQP\x01\x01\x09\x01", True),
        (PROBE_0_10 + b"more", True),
        (PROBE_0_10[:7], False),
        (PROTOCOL_HEADER, False),
        (b"AMQP\x00\x01\x00\x00", False),
        (b"AMQP\x03\x01\x00\x00", False),
        (b"GET / HTTP/1.1", False),
    ],
)
def test_headers_of_0_8_to_0_10_are_probes(header: bytes, is_one: bool) -> None:
    assert is_probe(header) is is_one


@pytest.mark.parametrize(
    ("product", "is_one"),
    [("qpid", True), ("Apache QPid", True), (QPIDS, True), (USUAL, False), ("", False)],
)
def test_a_product_is_qpid_s_by_its_name(product: str, is_one: bool) -> None:
    assert is_qpid(product) is is_one


@pytest.mark.row("M6")
def test_an_address_that_probed_is_told_a_product_of_qpid_s(stand: Stand) -> None:
    stand.products.on_probe("10.0.0.1")
    assert stand.told("10.0.0.1") == QPIDS
    assert stand.told("10.0.0.2") == USUAL


def test_a_probe_counts_for_minutes_alone(stand: Stand) -> None:
    stand.products.on_probe("h")
    stand.clock.advance(PROBE_VALID_MS)
    assert stand.told("h") == QPIDS
    stand.clock.advance(1)
    assert stand.told("h") == USUAL
    stand.products.on_client("h")  # too late to confirm anything
    assert stand.told("h") == USUAL
    stand.products.on_probe("h")
    assert stand.told("h") == QPIDS


def test_a_login_after_the_probe_makes_it_count_for_a_month(stand: Stand) -> None:
    stand.know("h")
    stand.clock.advance(HOST_VALID_DAYS * DAY_MS)
    assert stand.told("h") == QPIDS
    stand.clock.advance(DAY_MS)
    assert stand.told("h") == USUAL
    assert stand.reported == [(events.PRODUCT_CHANGED, {"host": "h", "product": QPIDS})]


def test_each_client_from_there_renews_the_month(stand: Stand) -> None:
    stand.know("h")
    for _ in range(5):
        stand.clock.advance((HOST_VALID_DAYS - 1) * DAY_MS)
        stand.products.on_client("h")  # as it connects, or when its connection ends
    assert stand.told("h") == QPIDS
    assert len(stand.reported) == 1


def test_a_host_that_was_forgotten_is_not_renewed(stand: Stand) -> None:
    stand.know("h")
    stand.clock.advance((HOST_VALID_DAYS + 1) * DAY_MS)
    stand.products.on_client("h")
    assert stand.told("h") == USUAL


def test_a_client_that_never_probed_changes_nothing(stand: Stand) -> None:
    stand.products.on_client("h")
    assert stand.told("h") == USUAL
    assert stand.reported == []


def test_a_listener_s_own_product_is_everybody_s(stand: Stand) -> None:
    stand.know("h")
    assert stand.told("h", "RabbitMQ") == "RabbitMQ"
    assert stand.told("other", "qpid") == "qpid"


def test_without_a_product_for_qpid_nobody_is_told_another() -> None:
    stand = Stand(Hosts({"kept": ManualClock().now_ms // DAY_MS}), qpid_product="")
    stand.know("h")
    assert [stand.told(host) for host in ("h", "kept")] == [USUAL, USUAL]


def test_a_socket_without_an_address_is_nobody_s(stand: Stand) -> None:
    stand.know("")
    assert stand.told("") == USUAL


def test_of_too_many_probes_the_oldest_is_forgotten(stand: Stand) -> None:
    for number in range(HOSTS_MAX):
        stand.products.on_probe(f"h{number}")
    stand.products.on_probe("h0")  # not the oldest any more
    stand.products.on_probe("one more")
    assert [stand.told(host) for host in ("h0", "h1", "h2")] == [QPIDS, USUAL, QPIDS]


def test_of_too_many_hosts_the_one_that_was_not_seen_for_longest_is_forgotten() -> None:
    hosts = Hosts()
    stand = Stand(hosts)
    for number in range(HOSTS_MAX):
        stand.know(f"h{number}")
    stand.products.on_client("h0")
    stand.know("one more")
    stand.clock.advance(PROBE_VALID_MS + 1)
    assert [stand.told(host) for host in ("h0", "h1", "h2")] == [QPIDS, USUAL, QPIDS]
    assert len(hosts.kept) == HOSTS_MAX
    assert "h1" not in hosts.kept


def test_strangers_who_only_probe_push_nobody_out_and_write_nothing() -> None:
    hosts = Hosts()
    stand = Stand(hosts)
    stand.know("h")
    assert hosts.writes == 1
    for number in range(3 * HOSTS_MAX):
        stand.products.on_probe(f"stranger {number}")
    assert hosts.writes == 1
    assert stand.told("h") == QPIDS


def test_a_host_is_written_once_a_day() -> None:
    hosts = Hosts()
    stand = Stand(hosts)
    for _ in range(3):
        stand.know("h")
    assert (hosts.kept, hosts.writes) == ({"h": stand.today}, 1)
    stand.clock.advance(DAY_MS)
    stand.products.on_client("h")
    assert (hosts.kept, hosts.writes) == ({"h": stand.today}, 2)


def test_what_was_kept_is_known_after_a_restart_and_what_is_too_old_goes() -> None:
    today = ManualClock().now_ms // DAY_MS
    hosts = Hosts({"old": today - HOST_VALID_DAYS - 1, "h": today - HOST_VALID_DAYS})
    stand = Stand(hosts)
    assert [stand.told(host) for host in ("h", "old")] == [QPIDS, USUAL]
    assert list(hosts.kept) == ["h"]


def test_no_more_are_taken_over_than_there_is_room_for() -> None:
    today = ManualClock().now_ms // DAY_MS
    hosts = Hosts({f"h{number}": today for number in range(HOSTS_MAX + 2)})
    stand = Stand(hosts)
    assert [stand.told(f"h{number}") for number in range(3)] == [USUAL, USUAL, QPIDS]
    assert len(hosts.kept) == HOSTS_MAX


def test_a_disk_that_fails_costs_the_memory_of_a_restart_alone() -> None:
    hosts = Hosts()
    stand = Stand(hosts)
    hosts.failure = "disk full"
    stand.know("h")
    assert stand.told("h") == QPIDS
    assert stand.reported[-1] == (events.HOST_NOT_KEPT, {"host": "h", "problem": "disk full"})


# ------------------------------------------------------------------- by way of a connection


def product_told(broker: SteppedBroker, listener_product: str = "") -> dict[str, object]:
    """The server properties that the next newcomer from 127.0.0.1 reads."""
    peer = broker.accept()
    peer.transport.listener_product = listener_product
    peer.send_octets(PROTOCOL_HEADER)
    properties: dict[str, object] = peer.expect(commands.Connection.Start).server_properties
    peer.lose()
    return properties


def probe(broker: SteppedBroker, header: bytes = PROBE_0_10) -> None:
    peer = broker.accept()
    peer.send_octets(header)
    broker.run_turns()
    assert peer.transport.written == PROTOCOL_HEADER
    assert peer.transport.state == "closed"
    peer.lose()


def log_in(broker: SteppedBroker, product: str) -> Peer:
    """As far as open-ok."""
    peer = broker.accept()
    peer.send_octets(PROTOCOL_HEADER)
    peer.expect(commands.Connection.Start)
    peer.send(
        0,
        commands.Connection.StartOk,
        client_properties={"product": product},
        mechanism="PLAIN",
        response="\0guest\0guest",
        locale="en_US",
    )
    peer.expect(commands.Connection.Tune)
    peer.send(0, commands.Connection.TuneOk, frame_max=8192, channel_max=7, heartbeat=0)
    peer.call(0, commands.Connection.Open, virtual_host="/")
    return peer


@pytest.mark.row("M6")
@pytest.mark.parametrize("header", [PROBE_0_10, PROBE_0_8])
def test_a_probe_changes_the_product_of_connection_start(
    broker: SteppedBroker, header: bytes
) -> None:
    assert product_told(broker)["product"] == USUAL
    probe(broker, header)
    properties = product_told(broker)
    assert properties["product"] == QPIDS
    assert QPID_PROPERTIES.items() <= properties.items()


def test_usual_properties_say_nothing_of_qpid(broker: SteppedBroker) -> None:
    assert not [name for name in product_told(broker) if "qpid" in name]


def test_a_listener_with_a_product_of_qpid_s_has_its_properties_too(
    broker: SteppedBroker,
) -> None:
    properties = product_told(broker, "qpid")
    assert properties["product"] == "qpid"
    assert QPID_PROPERTIES.items() <= properties.items()


@pytest.mark.parametrize("header", [b"AMQP\x00\x01\x00\x00", b"GET / HTTP/1.1\r\n\r\n"])
def test_other_protocols_change_no_product(broker: SteppedBroker, header: bytes) -> None:
    probe(broker, header)
    assert product_told(broker)["product"] == USUAL


@pytest.mark.row("M6")
def test_a_login_of_qpid_s_client_outlasts_its_probe(broker: SteppedBroker) -> None:
    probe(broker)
    log_in(broker, "qpid").lose()
    broker.advance(PROBE_VALID_MS / 1000 + 1)
    assert product_told(broker)["product"] == QPIDS
    assert broker.reported(events.PRODUCT_CHANGED) == [{"host": "127.0.0.1", "product": QPIDS}]


def test_a_login_of_another_client_does_not(broker: SteppedBroker) -> None:
    probe(broker)
    log_in(broker, "another client").lose()
    broker.advance(PROBE_VALID_MS / 1000 + 1)
    assert product_told(broker)["product"] == USUAL


@pytest.mark.parametrize("end", ["breaks", "is closed", "is closed by the broker"])
def test_a_connection_that_ends_after_weeks_renews_the_month(
    broker: SteppedBroker, end: str
) -> None:
    """Its client fails over, and does not probe again."""
    probe(broker)
    peer = log_in(broker, "qpid")
    broker.advance((HOST_VALID_DAYS - 1) * DAY_MS / 1000)
    if end == "is closed":
        peer.call(0, commands.Connection.Close, reply_code=200, reply_text="")
    elif end == "is closed by the broker":
        peer.connection.force_close("CONNECTION_FORCED - shutdown")
    else:
        peer.lose("reset by peer")
    broker.advance((HOST_VALID_DAYS - 1) * DAY_MS / 1000)
    assert product_told(broker)["product"] == QPIDS


def test_a_login_that_fails_confirms_nothing(broker: SteppedBroker) -> None:
    probe(broker)
    peer = broker.accept()
    peer.send_octets(PROTOCOL_HEADER)
    peer.expect(commands.Connection.Start)
    peer.send(
        0,
        commands.Connection.StartOk,
        client_properties={"product": "qpid"},
        mechanism="PLAIN",
        response="\0guest\0wrong",
        locale="en_US",
    )
    peer.receive()
    peer.lose()
    broker.advance(PROBE_VALID_MS / 1000 + 1)
    assert product_told(broker)["product"] == USUAL
