"""Records of counters, and what is kept of objects that are gone."""

from __future__ import annotations

from hareline.counts import (
    BrokerCounts,
    ChannelCounts,
    ConnectionCounts,
    EndedObjects,
    QueueCounts,
    VhostCounts,
)


def test_the_sum_of_all_kinds_of_deliveries_is_shown_as_rabbitmq_does() -> None:
    counts = QueueCounts(deliver=1, deliver_no_ack=2, get=3, get_no_ack=4, ack=9)
    assert counts.as_dict() == {
        "publish": 0,
        "deliver": 1,
        "deliver_no_ack": 2,
        "get": 3,
        "get_no_ack": 4,
        "get_empty": 0,
        "ack": 9,
        "redeliver": 0,
        "disk_reads": 0,
        "disk_writes": 0,
        "deliver_get": 10,
    }


def test_records_are_added_number_by_number() -> None:
    counts = ConnectionCounts(recv_oct=1, send_cnt=2)
    counts.add(ConnectionCounts(recv_oct=10, recv_cnt=20))
    assert counts.values() == (11, 20, 0, 2)
    assert counts.names() == ("recv_oct", "recv_cnt", "send_oct", "send_cnt")


def test_what_is_gone_counts_for_the_virtual_host_and_for_the_broker() -> None:
    broker = BrokerCounts()
    one, other = VhostCounts(broker), VhostCounts(broker)
    one.on_channel_ended("one", "a (1)", ChannelCounts(publish=3))
    other.on_channel_ended("other", "b (1)", ChannelCounts(publish=4, ack=1))
    one.on_connection_ended("one", "a", ConnectionCounts(send_oct=5))
    one.on_queue_ended("one", "q", QueueCounts(disk_writes=6))
    assert one.gone.channels == ChannelCounts(publish=3)
    assert broker.gone.channels == ChannelCounts(publish=7, ack=1)
    assert broker.gone.connections == ConnectionCounts(send_oct=5)
    assert broker.gone.queues == QueueCounts(disk_writes=6)
    assert broker.churn.as_dict() == {
        "connection_created": 0,
        "connection_closed": 1,
        "channel_created": 0,
        "channel_closed": 2,
        "queue_declared": 0,
        "queue_created": 0,
        "queue_deleted": 0,
    }


def test_what_has_ended_is_noted_while_something_samples() -> None:
    broker = BrokerCounts()
    vhost = VhostCounts(broker)
    vhost.on_queue_ended("/", "before", QueueCounts())
    ended = broker.ended = EndedObjects()
    vhost.on_queue_ended("/", "q", QueueCounts())
    vhost.on_exchange_ended("/", "e")
    assert ended.take("queue") == [(("/", "q"), "/")]
    assert ended.take("queue") == []
    assert ended.take("exchange") == [(("/", "e"), "/")]
