"""The table of rights as data: each operation once, each need once, names that tests can look up.

tests/management/test_rights.py tries what it says.
"""

from __future__ import annotations

from collections import Counter

from scripts.rights_table import OPERATIONS, TAG_ONLY


def test_each_operation_is_there_once() -> None:
    titles = Counter((each.way, each.title) for each in OPERATIONS)
    assert [title for title, count in titles.items() if count > 1] == []


def test_each_need_of_an_operation_differs_in_right_or_name() -> None:
    for operation in OPERATIONS:
        assert len(set(operation.needs)) == len(operation.needs), operation.title


def test_a_need_of_keys_stands_behind_the_need_of_its_exchange() -> None:
    for operation in OPERATIONS:
        for number, need in enumerate(operation.needs):
            if need.kind == "topic":
                before = [each for each in operation.needs[:number] if each.kind == "exchange"]
                assert before, operation.title
                assert before[-1].right == need.right, operation.title


def test_what_goes_over_amqp_has_no_tag_and_what_changes_something_over_http_has_one() -> None:
    for operation in OPERATIONS:
        if operation.way == "AMQP":
            assert operation.tag == ""
        elif not operation.name.partition(" ")[2].startswith("/api/stream/"):
            assert operation.tag in ("management", "policymaker")
    assert set(TAG_ONLY.values()) == {"administrator", "policymaker", "management"}
