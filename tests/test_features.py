"""docs/features.md accounts for every feature, and finds the tests that are marked with its id."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scripts import write_features
from scripts.feature_rows import FEATURES
from scripts.write_features import MarkedTest

ROOT = Path(__file__).resolve().parent.parent
#: What no test of this broker can show, or not yet; their notes say why.
ROWS_WITHOUT_TESTS = ["B4", "B12", "C11", "E22"]
WITHOUT_ROW = {"E11", "E13", "E19", "E20", "E21"}
EXPECTED_IDS = [
    f"{letter}{number}"
    for letter, last in (
        ("A", 29),
        ("B", 13),
        ("C", 13),
        ("D", 11),
        ("E", 30),
        ("M", 22),
        ("S", 14),
    )
    for number in range(1, last + 1)
    if f"{letter}{number}" not in WITHOUT_ROW
]


@pytest.fixture(scope="module")
def found() -> dict[str, list[MarkedTest]]:
    return write_features.tests_by_row(ROOT / "tests")


def found_in(tmp_path: Path, file: str, text: str) -> dict[str, list[str]]:
    """The names found for each row where there is only this one file."""
    path = tmp_path / "tests" / file
    path.parent.mkdir(parents=True)
    path.write_text(text, encoding="utf-8")
    found = write_features.tests_by_row(tmp_path / "tests")
    return {id_: [test.name for test in tests] for id_, tests in found.items() if tests}


class TestTheTable:
    def test_every_feature_has_one_row_in_order(self) -> None:
        assert [feature.id for feature in FEATURES] == EXPECTED_IDS

    def test_every_row_is_described_on_a_page_that_exists(self) -> None:
        pages = {feature.page for feature in FEATURES}
        missing = sorted(page for page in pages if not (ROOT / "docs" / page).is_file())
        assert not missing, f"not in docs/: {', '.join(missing)}"

    def test_every_row_has_a_test_or_says_why_not(self, found: dict[str, list[MarkedTest]]) -> None:
        unshown = [row for row in FEATURES if not found[row.id]]
        assert [row.id for row in unshown] == ROWS_WITHOUT_TESTS
        assert all(row.note for row in unshown)

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

    def test_the_page_has_a_row_for_each_feature_and_all_rows_have_five_cells(
        self, found: dict[str, list[MarkedTest]]
    ) -> None:
        lines = write_features.page(found).splitlines()
        rows = [line for line in lines if re.match(r"\| [A-EMS]\d", line)]
        assert [row.split("|")[1].strip() for row in rows] == EXPECTED_IDS
        assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {6}

    def test_a_row_leads_to_its_tests_and_says_how_many(self) -> None:
        found: dict[str, list[MarkedTest]] = {row.id: [] for row in FEATURES}
        found["A4"] = [
            MarkedTest("tests/unit/test_x.py", "test_a", ("A4",)),
            MarkedTest("tests/unit/test_x.py", "test_b", ("A4",)),
        ]
        assert "| [2 tests](feature-tests.md#a4) |" in write_features.page(found)
        page = write_features.tests_page(found)
        assert "- [unit/test_x.py](../tests/unit/test_x.py): `test_a`, `test_b`\n" in page
        assert re.findall(r"^## (.*)$", page, re.MULTILINE) == ["A4"]


class TestMarks:
    def test_functions_and_methods_of_python_are_found(self, tmp_path: Path) -> None:
        text = """
import pytest

class TestGroups:
    @pytest.mark.row("A12")
    async def test_wait(self): ...

@pytest.mark.row("A8", "A9")
@pytest.mark.parametrize("mode", ["x", "y"])
def test_modes(mode): ...

def test_without_a_row(): ...
"""
        assert found_in(tmp_path, "unit/test_groups.py", text) == {
            "A8": ["test_modes"],
            "A9": ["test_modes"],
            "A12": ["test_wait"],
        }

    def test_cases_of_junit_are_found(self, tmp_path: Path) -> None:
        text = """
  @Tag("D2")
  @Tag("A4")
  @Test
  void holds() throws Exception {
  @Test
  void waits() {
  @Tag("D2") @Test void works() {
"""
        assert found_in(tmp_path, "QosTest.java", text) == {
            "A4": ["holds"],
            "D2": ["holds", "works"],
        }

    def test_transcripts_are_found(self, tmp_path: Path) -> None:
        text = "row D7 A9\n# row B1 of what\nC: open\n"
        found = found_in(tmp_path, "stories/recover.txt", text)
        assert found == {"A9": ["recover"], "D7": ["recover"]}

    @pytest.mark.parametrize("file", ["node_modules/x/test_x.py", "notes.txt"])
    def test_what_is_no_test_of_ours_is_not_read(self, tmp_path: Path, file: str) -> None:
        assert not found_in(tmp_path, file, '@pytest.mark.row("A1")\ndef test_x(): ...')

    @pytest.mark.parametrize(
        ("file", "text", "name"),
        [
            ("test_x.py", '@pytest.mark.row("A77")\ndef test_x(): ...', "test_x"),
            ("test_x.py", "@pytest.mark.row(ROWS)\ndef test_x(): ...", "test_x"),
            ("XTest.java", '@Tag("A77")\n@Test\nvoid holds() {', "holds"),
            ("stories/x.txt", "row A77\n", "x"),
        ],
    )
    def test_an_id_that_no_row_has_is_an_error(
        self, tmp_path: Path, file: str, text: str, name: str
    ) -> None:
        with pytest.raises(ValueError, match=f"{name} is marked (A77|ROWS), which is no row"):
            found_in(tmp_path, file, text)

    @pytest.mark.parametrize(
        ("file", "text"),
        [
            ("test_x.py", 'pytestmark = pytest.mark.row("A4")\ndef test_x(): ...'),
            ("test_x.py", '@pytest.mark.row("A4")\nclass TestX:\n    def test_x(self): ...'),
            ("test_x.py", 'CASES = [pytest.param(1, marks=pytest.mark.row("A4"))]'),
            ("test_x.py", '@pytest.mark.row("A4")\ndef helper(): ...'),
            ("XTest.java", '@Test\n@Tag("A4")\nvoid holds() {'),
            ("XTest.java", '@Tag("A4")\nclass XTest {'),
        ],
    )
    def test_an_id_that_would_be_missed_is_an_error(
        self, tmp_path: Path, file: str, text: str
    ) -> None:
        with pytest.raises(ValueError, match="stands elsewhere than right above a test"):
            found_in(tmp_path, file, text)
