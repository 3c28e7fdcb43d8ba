"""docs/features.md accounts for every feature, and finds the tests that carry its id."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scripts import write_features
from scripts.feature_rows import FEATURES

ROOT = Path(__file__).resolve().parent.parent
EXPECTED_IDS = [
    f"{letter}{number}"
    for letter, last in (("A", 29), ("B", 13), ("C", 13), ("D", 11), ("M", 22), ("S", 11))
    for number in range(1, last + 1)
]


def found_in(tmp_path: Path, file: str, text: str) -> dict[str, list[str]]:
    """The names found for each feature where there is just this one file."""
    path = tmp_path / "tests" / file
    path.parent.mkdir(parents=True)
    path.write_text(text, encoding="utf-8")
    found = write_features.tests_by_feature(tmp_path / "tests")
    return {id_: [test.name for test in tests] for id_, tests in found.items() if tests}


class TestTheTable:
    def test_every_feature_has_one_row_in_order(self) -> None:
        assert [feature.id for feature in FEATURES] == EXPECTED_IDS

    def test_every_row_is_described_on_a_page_that_exists(self) -> None:
        pages = {feature.page for feature in FEATURES}
        missing = sorted(page for page in pages if not (ROOT / "docs" / page).is_file())
        assert not missing, f"not in docs/: {', '.join(missing)}"

    def test_every_row_has_a_test_or_says_why_not(self) -> None:
        found = write_features.tests_by_feature(ROOT / "tests")
        unshown = [row.id for row in FEATURES if not row.note and not found[row.id]]
        assert not unshown, f"neither test nor note: {', '.join(unshown)}"

    def test_every_argument_named_is_known_to_some_page(self) -> None:
        pages = {page.name: page.read_text(encoding="utf-8") for page in ROOT.glob("docs/*.md")}
        pages.pop("features.md")
        named = {
            (row.id, name)
            for row in FEATURES
            for name in re.findall(r"`((?:x-|prefetch_|default_)[a-z_-]+)`", row.setting)
        }
        assert len(named) > 30
        unknown = {
            (id_, name)
            for id_, name in named
            if not any(f"`{name}`" in text or f"{name} =" in text for text in pages.values())
        }
        assert not unknown, f"documented nowhere: {sorted(unknown)}"

    def test_the_page_has_a_row_for_each_feature_and_all_rows_have_five_cells(self) -> None:
        lines = write_features.page(ROOT).splitlines()
        rows = [line for line in lines if re.match(r"\| [A-DMS]\d", line)]
        assert [row.split("|")[1].strip() for row in rows] == EXPECTED_IDS
        assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {6}


class TestNames:
    @pytest.mark.parametrize(
        ("name", "ids"),
        [
            ("test_priority_a4", {"A4"}),
            ("test_a12_and_a13_together", {"A12", "A13"}),
            ("flow_with_prefetch_d11", {"D11"}),
            ("messagesOfAGroupStayTogetherA8", {"A8"}),
            ("selectorsByPriorityC12AndMore", {"C12"}),
            ("a reader begins at its offset (A17)", {"A17"}),
            ("test_shared[one group-a9]", {"A9"}),
            ("test_sha256_and_md5", set()),
            ("test_data4", set()),
            ("test_a100_times", set()),
            ("test_a", set()),
        ],
    )
    def test_an_id_is_found_where_it_is_a_word(self, name: str, ids: set[str]) -> None:
        assert write_features.NamedTest("tests/any", name).feature_ids == ids

    def test_functions_methods_and_parameters_of_python_are_found(self, tmp_path: Path) -> None:
        text = """
import pytest

class TestGroups:
    async def test_wait_a12(self): ...

@pytest.mark.parametrize("mode", ["x", pytest.param("y", id="shared a9")], ids=["one", "two_a8"])
def test_modes(mode): ...

def helper_a1(): ...
"""
        assert found_in(tmp_path, "unit/test_groups.py", text) == {
            "A8": ["test_modes[two_a8]"],
            "A9": ["test_modes[shared a9]"],
            "A12": ["test_wait_a12"],
        }

    @pytest.mark.parametrize(
        ("file", "text", "name"),
        [
            ("stories/recover_d7.txt", "C: basic.recover", "recover_d7"),
            ("QosTest.java", "  @Test\n  void holdsD2() throws Exception {", "holdsD2"),
            ("go/client_test.go", "func TestHoldsD2(t *testing.T) {", "TestHoldsD2"),
            ("node/a.test.cjs", "test('holds, as d2 says', async (t) => {", "holds, as d2 says"),
        ],
    )
    def test_other_languages_are_read_too(
        self, tmp_path: Path, file: str, text: str, name: str
    ) -> None:
        found = found_in(tmp_path, file, text)
        assert [name] in list(found.values())

    @pytest.mark.parametrize("file", ["node_modules/x/test_x.py", "helper.py", "notes.txt"])
    def test_what_is_no_test_of_ours_is_not_read(self, tmp_path: Path, file: str) -> None:
        assert not found_in(tmp_path, file, "def test_x_a1(): ...")

    def test_an_id_that_is_no_feature_is_an_error(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="test_x_a77 names A77, which is no feature"):
            found_in(tmp_path, "test_x.py", "def test_x_a77(): ...")
