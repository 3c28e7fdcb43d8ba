"""What an export for RabbitMQ leaves out, as a header that clients take."""

from __future__ import annotations

from hareline.management.api.definitions import WARNINGS_MAX_CHARS, warnings_of


def test_few_notes_are_there_whole_and_in_ascii() -> None:
    values = list(warnings_of(["left out \"x\" of: 'größe'", "and y\n"]))
    assert values == [
        r"""299 Hareline "left out \"x\" of: 'gr\\xf6\\xdfe'" """.strip(),
        r'299 Hareline "and y\\n"',
    ]


def test_of_very_many_there_is_a_number() -> None:
    values = list(warnings_of(["\N{PILE OF POO}" * 600] * 60))
    assert sum(map(len, values)) < WARNINGS_MAX_CHARS + 100
    assert values[-1] == f'299 Hareline "and {60 - len(values) + 1} notes more"'
