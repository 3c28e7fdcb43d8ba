"""Every event has a code of its own, and is logged somewhere with all of its fields."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from hareline import events

SOURCE = Path(__file__).resolve().parents[2] / "src" / "hareline"


def test_codes_are_unique_and_of_one_form() -> None:
    codes = [event.code for event in events.ALL]
    assert len(codes) > 15
    assert len(set(codes)) == len(codes)
    assert all(re.fullmatch(r"[A-Z]{3}-\d{4}", code) for code in codes)


def test_a_text_quotes_only_fields_of_its_event() -> None:
    for event in events.ALL:
        assert set(re.findall(r"{(\w+)}", event.text)) <= set(event.fields), event.code


def _logged_events() -> Iterator[tuple[str, str, set[str]]]:
    """(place, event name, keywords) of every call in the package that is given `events.NAME`."""
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(
                    func=func, args=[ast.Attribute(value=ast.Name(id="events"), attr=name), *_]
                ):
                    keywords = {word.arg for word in node.keywords if word.arg is not None}
                    is_ending = path.name == "ending.py" or ast.unparse(func).endswith(
                        "ending.report"
                    )
                    if is_ending:  # ``amqp.ending`` says of which peer
                        keywords.add("peer")
                    yield f"{path.relative_to(SOURCE)}:{node.lineno}", name, keywords


def test_every_call_names_the_fields_of_its_event() -> None:
    calls = list(_logged_events())
    assert len(calls) >= 10
    for place, name, keywords in calls:
        event = getattr(events, name)
        missing = set(event.fields) - keywords
        assert not missing, f"{place}: {event.code} wants {sorted(missing)}"


def test_every_event_is_logged_somewhere() -> None:
    logged = {getattr(events, name).code for _, name, _ in _logged_events()}
    assert {event.code for event in events.ALL} == logged
