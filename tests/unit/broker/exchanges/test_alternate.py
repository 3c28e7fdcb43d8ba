"""The three names of an alternate: what each may hold, and that they agree."""

from __future__ import annotations

import pytest

from hareline.broker.exchanges.alternate import with_alternate
from hareline.errors import PreconditionFailed
from hareline.wire.table import SignedInt, Table

AE = "alternate-exchange"


def read(arguments: dict[str, object]) -> object:
    return with_alternate(arguments, exchange="x", vhost="/").get(AE)


@pytest.mark.parametrize(
    "arguments",
    [
        {AE: "a"},
        {"alternateExchange": "a"},
        {"alternateBinding": Table({"destination": "a", "attributes": Table()})},
        {"alternateBinding": '{"destination": "a"}'},
        {AE: "a", "alternateExchange": "a", "alternateBinding": {"destination": "a"}},
    ],
)
def test_each_name_says_it(arguments: dict[str, object]) -> None:
    assert read(arguments) == "a"


def test_other_arguments_stay() -> None:
    arguments = {"alternateExchange": "a", "hash-header": "h"}
    assert with_alternate(arguments, exchange="x", vhost="/") == {**arguments, AE: "a"}
    assert with_alternate({"hash-header": "h"}, exchange="x", vhost="/") == {"hash-header": "h"}


@pytest.mark.parametrize(
    ("name", "value", "term"),
    [
        ("alternateExchange", SignedInt(5), "{unacceptable_type,signedint}"),
        ("alternateExchange", " ", "value_blank"),
        ("alternateBinding", True, "{unacceptable_type,bool}"),
        ("alternateBinding", "a", '"expected a table, got text that is not JSON"'),
        ("alternateBinding", {"attributes": {}}, '"expected a table with a destination"'),
        ("alternateBinding", {"destination": ""}, '"expected a table with a destination"'),
    ],
)
def test_a_wrong_value_is_refused_by_name(name: str, value: object, term: str) -> None:
    with pytest.raises(PreconditionFailed) as caught:
        read({name: value})
    assert str(caught.value) == f"invalid arg '{name}' for exchange 'x' in vhost '/': {term}"


@pytest.mark.parametrize(
    ("arguments", "first", "second"),
    [
        ({AE: "a", "alternateExchange": "b"}, AE, "alternateExchange"),
        (
            {"alternateBinding": {"destination": "a"}, "alternateExchange": "b"},
            "alternateExchange",
            "alternateBinding",
        ),
        ({AE: SignedInt(1), "alternateExchange": "b"}, AE, "alternateExchange"),
    ],
)
def test_names_that_differ_are_refused(
    arguments: dict[str, object], first: str, second: str
) -> None:
    with pytest.raises(PreconditionFailed) as caught:
        read(arguments)
    assert str(caught.value) == (
        f"contradictory args '{first}' and '{second}' for exchange 'x' in vhost '/': "
        "they mean the same and differ"
    )
