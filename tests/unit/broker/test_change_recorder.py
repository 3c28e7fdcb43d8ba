"""For whom the broker works: while a call lasts, nested, and also when it fails."""

from __future__ import annotations

from contextlib import suppress

from hareline.broker.change_recorder import NOBODY, Doer
from hareline.management.change_log import ChangeLog


def test_a_doer_is_one_while_its_call_lasts() -> None:
    recorder = ChangeLog(lambda: 0, {})
    outer, inner = Doer("http", "ann", "h:1"), Doer("amqp", "bob", "h:2")
    assert recorder.doer == NOBODY
    with recorder.acting(outer):
        with suppress(ValueError), recorder.acting(inner):
            assert recorder.doer is inner
            raise ValueError("a call that fails")
        assert recorder.doer is outer
    assert recorder.doer == NOBODY
