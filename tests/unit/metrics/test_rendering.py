"""Metrics: how they are written, and what they say of a broker."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from hareline.metrics import own, rendering
from hareline.metrics.exposition import Family, head, histogram, label, number, sample
from hareline.metrics.rendering import Rendering
from hareline.metrics.source import JournalMeter, Meters, MetricsSource
from hareline.metrics.table import CLUSTER_GROUPS, EMPTY_GROUPS, GROUPS
from hareline.wire.methods import commands
from tests.unit.amqp.peer import Peer, SteppedBroker

# -------------------------------------------------------------------------------------- exposition


QUEUES = Family("queues", "gauge", "Queues available")


def test_a_family_has_type_and_help_in_front() -> None:
    text = head("rabbitmq_", QUEUES) + sample("rabbitmq_queues", "", 3)
    assert text == (
        "# TYPE rabbitmq_queues gauge\n# HELP rabbitmq_queues Queues available\nrabbitmq_queues 3\n"
    )


@pytest.mark.parametrize(
    "name", ["plain", 'a"quote', "a\\backslash", "two\nlines", "ünïcode", "", "{a=1,b}", "\udcff"]
)
def test_any_name_is_one_label_of_one_line(name: str) -> None:
    text = head("", QUEUES) + sample("queues", label("queue", name), 1)
    assert text.count("\n") == 3
    (family,) = text_string_to_metric_families(text.encode().decode())
    (found,) = family.samples
    expected = name if "\udcff" not in name else "\\udcff"
    assert found.labels == {"queue": expected}


def test_help_stays_on_its_line() -> None:
    assert head("", Family("x", "gauge", "a\nb\\c")).splitlines()[1] == r"# HELP x a\nb\\c"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "1"),
        (0, "0"),
        (1 << 70, str(1 << 70)),
        (0.25, "0.25"),
        (math.inf, "+Inf"),
        (-math.inf, "-Inf"),
        (math.nan, "NaN"),
    ],
)
def test_numbers(value: float, text: str) -> None:
    assert number(value) == text


def test_a_histogram_is_cumulative() -> None:
    family = Family("turn_seconds", "histogram", "How long")
    text = histogram("h_", family, (0.1, 1.0), (2, 1, 3), 9.5)
    (found,) = text_string_to_metric_families(text)
    buckets = [each.value for each in found.samples if each.name == "h_turn_seconds_bucket"]
    assert buckets == [2, 3, 6]
    assert [each.value for each in found.samples if each.name == "h_turn_seconds_sum"] == [9.5]
    assert [each.value for each in found.samples if each.name == "h_turn_seconds_count"] == [6]


# ------------------------------------------------------------------------------------------ meters


def test_a_batch_that_is_not_synced_has_no_sync() -> None:
    journal = JournalMeter()
    journal.on_batch(100, 0.001, None)
    journal.on_batch(50, 0.003, 0.002)
    assert (journal.writes.count, journal.syncs.count) == (2, 1)
    assert journal.octets == 150
    assert journal.writes.sum_s == pytest.approx(0.004)


# --------------------------------------------------------------------------------------- rendering


BASIC = commands.Basic


def source_of(broker: SteppedBroker) -> MetricsSource:
    return MetricsSource(
        broker.context, broker.store, lambda: (1000, 2000), lambda: (5000, 50), Meters()
    )


def read(pieces: Iterator[str]) -> dict[str, Metric]:
    """The families of a scrape by the names they have there, each once."""
    text = "".join(pieces)
    heads = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(heads) == len(set(heads))
    found: dict[str, Metric] = {}
    for family in text_string_to_metric_families(text):
        name = f"{family.name}_total" if family.type == "counter" else family.name
        found[name] = family
    return found


def values(family: Metric) -> dict[tuple[tuple[str, str], ...], float]:
    return {tuple(sorted(each.labels.items())): each.value for each in family.samples}


def value(found: dict[str, Metric], name: str, **labels: str) -> float:
    return values(found[name])[tuple(sorted(labels.items()))]


def scrape(broker: SteppedBroker) -> dict[str, Metric]:
    return read(Rendering(source_of(broker)).aggregated())


def test_every_metric_has_a_value_in_every_object(peer: Peer) -> None:
    source = source_of(peer.broker)
    peer.declare("q")
    for name, group in GROUPS.items():
        assert len(group.gone(peer.broker.context.counts)) == len(group.metrics), name
        if group.kind != "broker":
            found = [each for each in source.objects(group.kind) if each is not None]
            assert found, name
            values = group.reader()(found[0].facts)
            for (family, _), value in zip(group.metrics, values, strict=True):
                is_optional = family.name == "queue_head_message_timestamp"
                assert isinstance(value, int | float) or is_optional, family.name


def test_sums_are_over_all_objects(broker: SteppedBroker, peer: Peer) -> None:
    other = broker.connect(channels=(1, 2))
    for name in ("one", "two"):
        peer.declare(name)
        peer.fill(name, b"abc", b"de")
    assert other.get("one", number=2) is not None
    found = scrape(broker)
    assert value(found, "rabbitmq_queue_messages_ready") == 3
    assert value(found, "rabbitmq_queue_messages_unacked") == 1
    assert value(found, "rabbitmq_queue_messages") == 4
    assert value(found, "rabbitmq_queue_messages_ready_bytes") == 7
    assert value(found, "rabbitmq_connections") == 2
    assert value(found, "rabbitmq_channels") == 3
    assert value(found, "rabbitmq_queues") == 2
    assert value(found, "rabbitmq_channel_messages_published_total") == 4
    assert value(found, "rabbitmq_channel_get_ack_total") == 1
    assert value(found, "rabbitmq_process_resident_memory_bytes") == 1000
    assert value(found, "rabbitmq_disk_space_available_limit_bytes") == 50


def test_counters_do_not_fall_when_what_they_counted_is_gone(
    broker: SteppedBroker, peer: Peer
) -> None:
    peer.declare("q")
    peer.fill("q", b"x", b"x")
    peer.publish(1, "nowhere", b"x")
    assert peer.get("q", no_ack=True) is not None
    before = scrape(broker)
    peer.call(1, commands.Queue.Delete, queue="q")
    peer.lose()
    after = scrape(broker)
    counters = [name for name, family in before.items() if family.type == "counter"]
    assert len(counters) > 40
    for name in counters:
        for labels, was in values(before[name]).items():
            assert values(after[name])[labels] >= was, name
    protocol = {"protocol": "amqp091"}
    assert value(after, "rabbitmq_global_messages_received_total", **protocol) == 3
    assert value(after, "rabbitmq_global_messages_routed_total", **protocol) == 2
    assert value(after, "rabbitmq_global_messages_unroutable_dropped_total", **protocol) == 1
    assert value(after, "rabbitmq_connections_closed_total") == 1
    assert value(after, "rabbitmq_queues_deleted_total") == 1


def test_objects_are_shown_with_their_labels(broker: SteppedBroker, peer: Peer) -> None:
    peer.declare('q"1\\')
    peer.fill('q"1\\', b"x")
    found = read(Rendering(source_of(broker)).per_object())
    queue = {"vhost": "/", "queue": 'q"1\\'}
    assert value(found, "rabbitmq_queue_messages_ready", **queue) == 1
    assert value(found, "hareline_queue_messages_held", **queue) == 0
    info = {**queue, "queue_type": "rabbit_classic_queue", "membership": "leader"}
    assert value(found, "rabbitmq_queue_info", **info) == 1
    (channel,) = values(found["rabbitmq_channel_messages_published_total"])
    assert channel[0][0] == "channel"
    assert channel[0][1].endswith(" (1)")
    (connection,) = values(found["rabbitmq_connection_channels"])
    assert connection[0][0] == "connection"
    exchange = {"vhost": "/", "exchange": "amq.direct"}
    assert value(found, "rabbitmq_exchange_messages_published_total", **exchange) == 0


def test_detail_is_what_is_asked_for(broker: SteppedBroker, peer: Peer) -> None:
    broker.add_vhost("other")
    broker.add_user("both", "both", vhosts=("/", "other"))
    peer.declare("here")
    broker.connect("both", vhost="other").declare("there")

    def detailed(*groups: str, vhosts: tuple[str, ...] = ()) -> dict[str, Metric]:
        return read(Rendering(source_of(broker)).detailed(groups, vhosts))

    nothing = set(detailed())
    assert nothing == {"rabbitmq_build_info", "rabbitmq_identity_info"}
    coarse = detailed("queue_coarse_metrics")
    assert set(coarse) - nothing == {
        "rabbitmq_detailed_queue_messages",
        "rabbitmq_detailed_queue_messages_ready",
        "rabbitmq_detailed_queue_messages_unacked",
        "rabbitmq_detailed_queue_info",
    }
    assert len(coarse["rabbitmq_detailed_queue_messages"].samples) == 2
    one = detailed("queue_coarse_metrics", vhosts=("other",))
    (sample,) = one["rabbitmq_detailed_queue_messages"].samples
    assert sample.labels == {"vhost": "other", "queue": "there"}
    bindings = detailed("exchange_bindings", "vhost_status", vhosts=("/",))
    (status,) = bindings["rabbitmq_cluster_vhost_status"].samples
    assert (status.labels, status.value) == ({"vhost": "/"}, 1)
    names = {
        each.labels["exchange"] for each in bindings["rabbitmq_cluster_exchange_bindings"].samples
    }
    assert names == {"amq.direct", "amq.fanout", "amq.topic", "amq.headers", "amq.match"}


@pytest.mark.parametrize("group", [*GROUPS, *CLUSTER_GROUPS, *sorted(EMPTY_GROUPS)])
def test_each_group_can_be_asked_for(peer: Peer, group: str) -> None:
    peer.declare("q")
    found = read(Rendering(source_of(peer.broker)).detailed([group], ()))
    expected = len(GROUPS[group].metrics) if group in GROUPS else int(group in CLUSTER_GROUPS)
    has_info = group.startswith("queue_") and group in GROUPS
    has_info = has_info or group == "channel_queue_exchange_metrics"
    assert len(found) - 2 - has_info == expected


def test_the_parts_of_memory_are_the_whole(broker: SteppedBroker, peer: Peer) -> None:
    peer.declare("q")
    peer.fill("q", b"x" * 100)
    found = read(Rendering(source_of(broker)).memory_breakdown())
    assert value(found, "rabbitmq_memory_binary_heap_bytes") == 100
    parts = [family for name, family in found.items() if name.startswith("rabbitmq_memory_")]
    assert sum(each.value for family in parts for each in family.samples) >= 1000


def test_pieces_are_small(
    broker: SteppedBroker, peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two pieces there are few objects, and few lines."""
    monkeypatch.setattr(rendering, "OBJECTS_PER_PIECE", 4)
    monkeypatch.setattr(rendering, "LINES_PER_PIECE", 8)
    monkeypatch.setattr(own, "LINES_PER_PIECE", 8)
    for index in range(40):
        peer.declare(f"q{index}")
    pieces = list(Rendering(source_of(broker)).per_object())
    assert max(piece.count("\n") for piece in pieces) < 40
    assert sum(not piece for piece in pieces) >= 10


def test_what_ends_during_a_scrape_does_no_harm(broker: SteppedBroker, peer: Peer) -> None:
    for index in range(100):
        peer.declare(f"q{index}")
    pieces = Rendering(source_of(broker)).per_object()
    text = [next(pieces)]
    peer.lose()
    for index in range(100):
        broker.vhost.delete_queue(f"q{index}", None)
    text += pieces
    assert "rabbitmq_queue_messages_ready" in read(iter(text))
