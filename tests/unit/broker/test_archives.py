"""What may be an archive, that archives stay, and that they are found again after a restart."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from hareline.broker.archives import ARCHIVE_TO
from hareline.broker.vhost import VirtualHost
from hareline.errors import NotFound, PreconditionFailed
from hareline.queues.queue import Queue
from tests.support.stores import FakeDefinitions
from tests.support.turns import ManualTurn
from tests.support.vhosts import ME, MESSAGE, bind, declare, declare_exchange, make_vhost, routed

STREAM = {"x-queue-type": "stream"}


@pytest.fixture
def vhost() -> VirtualHost:
    made = make_vhost(ManualTurn())
    stream(made)
    return made


def stream(vhost: VirtualHost, name: str = "s", **arguments: object) -> Queue:
    return declare(vhost, name, is_durable=True, arguments=STREAM | arguments)


def to(name: object) -> Mapping[str, object]:
    return {ARCHIVE_TO: name}


class TestDeclaring:
    @pytest.mark.parametrize("name", ["nowhere", "q"])
    def test_an_archive_must_exist(self, vhost: VirtualHost, name: str) -> None:
        with pytest.raises(NotFound, match=f"^no queue '{name}' in vhost '/'$"):
            declare(vhost, "q", arguments=to(name))
        with pytest.raises(NotFound, match=f"^no queue '{name}' in vhost '/'$"):
            declare_exchange(vhost, "x", arguments=to(name))
        assert "q" not in vhost.queues
        assert "x" not in vhost.exchanges

    def test_an_archive_must_be_a_stream(self, vhost: VirtualHost) -> None:
        declare(vhost, "classic", arguments={"x-non-destructive": True})
        rest = "in vhost '/': queue 'classic' is not a stream; declare it with x-queue-type stream"
        with pytest.raises(PreconditionFailed) as refused:
            declare(vhost, "q", arguments=to("classic"))
        assert str(refused.value) == f"invalid arg 'x-archive-to' for queue 'q' {rest}"
        with pytest.raises(PreconditionFailed) as refused:
            declare_exchange(vhost, "x", arguments=to("classic"))
        assert str(refused.value) == f"invalid arg 'x-archive-to' for exchange 'x' {rest}"

    @pytest.mark.parametrize(("value", "type_name"), [(5, "long"), (None, "void"), (True, "bool")])
    def test_an_archive_is_a_text(self, vhost: VirtualHost, value: object, type_name: str) -> None:
        with pytest.raises(PreconditionFailed, match=r"^invalid arg 'x-archive-to' for queue 'q' "):
            declare(vhost, "q", arguments=to(value))
        with pytest.raises(
            PreconditionFailed,
            match=f"^invalid type '{type_name}' for arg 'x-archive-to' in exchange 'x' in vhost",
        ):
            declare_exchange(vhost, "x", arguments=to(value))

    @pytest.mark.parametrize("queue_type", ["classic", "quorum", "stream"])
    def test_every_type_of_queue_takes_one(self, vhost: VirtualHost, queue_type: str) -> None:
        arguments = {"x-queue-type": queue_type, **to("s")}
        queue = declare(vhost, "q", is_durable=True, arguments=arguments)
        assert queue.archive is vhost.queues["s"]

    def test_a_redeclaration_names_the_same_archive(self, vhost: VirtualHost) -> None:
        stream(vhost, "t")
        declare(vhost, "q", arguments=to("s"))
        declare(vhost, "q", arguments=to("s"))
        for arguments in ({}, to("t")):
            with pytest.raises(PreconditionFailed, match="inequivalent arg 'x-archive-to'"):
                declare(vhost, "q", arguments=arguments)
        declare_exchange(vhost, "x", arguments=to("s"))
        declare_exchange(vhost, "x", arguments=to("s"))
        with pytest.raises(PreconditionFailed) as refused:
            declare_exchange(vhost, "x", arguments=to("t"))
        assert str(refused.value) == (
            "inequivalent arg 'x-archive-to' for exchange 'x' in vhost '/': "
            "received 't' but current is 's'"
        )
        with pytest.raises(PreconditionFailed, match="received none but current is the value 's'"):
            declare_exchange(vhost, "x")


class TestDeleting:
    def test_the_archive_of_a_queue_stays(self, vhost: VirtualHost) -> None:
        declare(vhost, "q", arguments=to("s"))
        with pytest.raises(PreconditionFailed) as refused:
            vhost.delete_queue("s", ME)
        assert str(refused.value) == (
            "queue 's' in vhost '/' is the archive of queue 'q': delete the queue first"
        )
        vhost.delete_queue("q", ME)
        assert not vhost.routing.has_archives
        vhost.delete_queue("s", ME)
        assert vhost.queues == {}

    def test_the_archive_of_an_exchange_stays(self, vhost: VirtualHost) -> None:
        declare_exchange(vhost, "x", arguments=to("s"))
        declare_exchange(vhost, "y", arguments=to("s"))
        for name in ("x", "y"):
            with pytest.raises(PreconditionFailed, match=f"is the archive of exchange '{name}'"):
                vhost.delete_queue("s", ME)
            vhost.delete_exchange(name, if_unused=False)
        vhost.delete_queue("s", ME)

    def test_what_ends_by_itself_lets_go_of_its_archive(self, vhost: VirtualHost) -> None:
        declare_exchange(vhost, "x", "fanout", is_auto_delete=True, arguments=to("s"))
        exclusive = declare(vhost, "e", is_exclusive=True, arguments=to("s"))
        bind(vhost, "x", exclusive)
        vhost.delete_queues_of(ME)
        assert vhost.queues.keys() == {"s"}
        assert "x" not in vhost.exchanges
        vhost.delete_queue("s", ME)


class TestRouting:
    def archives(self, vhost: VirtualHost, exchange: str) -> list[str]:
        route = vhost.routing.route(vhost.exchange(exchange), ["k"], MESSAGE)
        return [queue.name for queue in route[2] if isinstance(queue, Queue)]

    def test_each_exchange_on_the_way_has_its_archive(self, vhost: VirtualHost) -> None:
        stream(vhost, "t")
        declare_exchange(vhost, "inner", "fanout", arguments=to("t"))
        outer = declare_exchange(vhost, "outer", "fanout", arguments=to("s"))
        bind(vhost, "outer", vhost.exchange("inner"))
        bind(vhost, "amq.direct", outer)
        assert self.archives(vhost, "inner") == ["t"]
        assert self.archives(vhost, "amq.direct") == ["s", "t"]
        assert routed(vhost, "amq.direct") == []

    def test_one_archive_of_several_exchanges_is_named_once(self, vhost: VirtualHost) -> None:
        declare_exchange(vhost, "inner", "fanout", arguments=to("s"))
        declare_exchange(vhost, "outer", "fanout", arguments=to("s"))
        bind(vhost, "outer", vhost.exchange("inner"))
        assert self.archives(vhost, "outer") == ["s"]

    def test_an_alternate_exchange_has_its_archive_where_it_is_used(
        self, vhost: VirtualHost
    ) -> None:
        declare_exchange(vhost, "rest", "fanout", arguments=to("s"))
        declare_exchange(vhost, "x", "fanout", arguments={"alternate-exchange": "rest"})
        assert self.archives(vhost, "x") == ["s"]
        bind(vhost, "x", declare(vhost, "q"))
        assert self.archives(vhost, "x") == []

    def test_a_new_archive_changes_the_routes(self, vhost: VirtualHost) -> None:
        before = vhost.routing.version
        declare(vhost, "q", arguments=to("s"))
        assert vhost.routing.version > before
        assert vhost.routing.has_archives


class TestLifeAndDeath:
    @pytest.mark.parametrize("order", [("s", "q"), ("q", "s")])
    def test_a_restart_brings_archives_back_in_any_order(
        self, vhost: VirtualHost, order: tuple[str, str]
    ) -> None:
        again = make_vhost(ManualTurn())
        again.restore_exchange(
            "x", "fanout", is_auto_delete=False, is_internal=False, arguments=to("s")
        )
        arguments = {"s": STREAM, "q": to("s")}
        for number, name in enumerate(order, 1):
            again.restore_queue(number, name, is_auto_delete=False, arguments=arguments[name])
        assert again.queues["q"].archive is again.queues["s"]
        assert again.exchanges["x"].archive is again.queues["s"]
        with pytest.raises(PreconditionFailed):
            again.delete_queue("s", ME)

    @pytest.mark.parametrize("is_durable", [True, False])
    def test_what_archives_to_a_stream_that_is_lost_is_lost_with_it(self, is_durable: bool) -> None:
        definitions = FakeDefinitions()
        vhost = make_vhost(ManualTurn(), definitions=definitions)
        definitions.gathers, definitions.loss = True, "disk I/O error"
        stream(vhost)
        declare(vhost, "q", is_durable=is_durable, arguments=to("s"))
        declare_exchange(vhost, "x", is_durable=is_durable, arguments=to("s"))
        definitions.commit()
        assert vhost.queues == {}
        assert "x" not in vhost.exchanges
        assert not vhost.routing.has_archives
