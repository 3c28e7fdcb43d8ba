"""Answers are remembered as long as they may be, and a question is asked once for all."""

from __future__ import annotations

import pytest

from hareline.authorities.decisions import HANDOVER_S, Decisions, LoginQuestions
from hareline.clock import ManualClock


def decisions(clock: ManualClock, keep_s: float = 15.0, capacity: int = 4) -> Decisions[str]:
    return Decisions(clock.running_s, lambda answer: keep_s if answer == "yes" else 0.0, capacity)


def test_an_answer_is_remembered_for_its_time() -> None:
    clock = ManualClock()
    known = decisions(clock)
    assert known.find("q") is None
    known.put("q", "yes")
    clock.advance(14_999)
    assert known.find("q") == "yes"
    clock.advance(1)
    assert known.find("q") is None
    assert len(known) == 0


def test_any_answer_is_there_for_those_who_waited() -> None:
    clock = ManualClock()
    known = decisions(clock)
    known.put("q", "no")
    clock.advance(int(HANDOVER_S * 1000) - 1)
    assert known.find("q") == "no"
    clock.advance(1)
    assert known.find("q") is None


def test_a_question_is_asked_once_for_all_who_wait() -> None:
    known = decisions(ManualClock())
    called: list[str | None] = []
    assert known.wait("q", lambda: called.append(known.find("q")))
    assert not known.wait("q", lambda: called.append("second"))
    assert known.wait("other", lambda: called.append("never"))
    known.put("q", "yes")
    assert called == ["yes", "second"]
    assert known.wait("q", lambda: None)


def test_one_who_waits_and_fails_keeps_no_other_waiting() -> None:
    known = decisions(ManualClock())
    called: list[str] = []

    def fail() -> None:
        raise RuntimeError("a bug")

    known.wait("q", fail)
    known.wait("q", lambda: called.append("yes"))
    with pytest.raises(RuntimeError, match="a bug"):
        known.put("q", "yes")
    assert called == ["yes"]


def test_the_oldest_answers_are_forgotten_first() -> None:
    known = decisions(ManualClock(), capacity=2)
    for question in ("a", "b", "a", "c"):
        known.put(question, "yes")
    assert [known.find(each) for each in "abc"] == ["yes", None, "yes"]


def test_a_login_is_remembered_without_its_password() -> None:
    questions = LoginQuestions()
    one = questions.question("ann", "secret")
    assert one == questions.question("ann", "secret")
    assert "secret" not in repr(one)
    others = [("ann", "Secret"), ("bob", "secret"), ("ann", None), ("ann", ""), ("ann", "\udcff")]
    assert len({one, *(questions.question(*other) for other in others)}) == 6
    assert LoginQuestions().question("ann", "secret") != one
