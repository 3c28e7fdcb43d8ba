"""The list of what RabbitMQ 4 takes: each row has its reason, and nothing is left out."""

from __future__ import annotations

from pathlib import Path

from hareline.administration.definitions_rabbitmq import CORE_EXCHANGE_TYPES
from hareline.administration.parameters import COMPONENTS
from hareline.administration.policy_keys import KEYS, RABBITMQ_KEYS
from hareline.queues.declare.table import BY_NAME
from scripts.rabbitmq_4 import EXCHANGES, HAS, LISTS, PARAMETERS, POLICY_KEYS, QUEUE_ARGUMENTS

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "decisions" / "0007-differences-from-rabbitmq.md"

#: Arguments that came with RabbitMQ 4.3.
LATER = {
    "x-consumer-disconnected-timeout",
    "x-delayed-retry-max",
    "x-delayed-retry-min",
    "x-delayed-retry-type",
    "x-member-placement-tag",
}


def test_what_is_not_here_or_does_nothing_has_a_reason() -> None:
    for title, _, rows, status in LISTS:
        names = [row.name for row in rows]
        assert len(names) == len(set(names)), title
        for row in rows:
            assert (status(row.name) == HAS) is not bool(row.why), row.name


def test_each_difference_that_is_named_is_in_the_decision() -> None:
    page = PAGE.read_text(encoding="utf-8")
    named = {name for _, _, rows, _ in LISTS for row in rows for name in row.differs}
    assert named
    assert not [name for name in named if f"| `{name}` |" not in page]


def test_every_argument_without_effect_is_one_of_rabbitmqs() -> None:
    without_effect = {name for name, each in BY_NAME.items() if each.field is None}
    assert without_effect - LATER < {row.name for row in QUEUE_ARGUMENTS}


def test_operators_have_the_keys_that_rabbitmq_gives_them() -> None:
    listed = {row.name for row in POLICY_KEYS if row.is_operator}
    assert {name for name, key in KEYS.items() if key.is_operator and not key.is_ours} == listed


def test_an_export_for_rabbitmq_has_the_keys_and_types_that_it_takes() -> None:
    assert {row.name for row in POLICY_KEYS} > RABBITMQ_KEYS
    assert set(KEYS) & {row.name for row in POLICY_KEYS} == RABBITMQ_KEYS
    assert {row.name for row in EXCHANGES if not row.plugin} == set(CORE_EXCHANGE_TYPES)


def test_every_component_of_parameters_is_listed() -> None:
    assert set(COMPONENTS) < {row.name for row in PARAMETERS}
