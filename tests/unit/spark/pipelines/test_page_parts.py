"""Parts of a page: what is shown, and by what a table is sorted."""

from __future__ import annotations

from hareline.spark.pipelines import page_parts
from hareline.spark.pipelines.charts import NARROW, WIDE
from hareline.spark.pipelines.page_parts import DASH


def test_a_figure_that_there_is_not_is_a_dash_and_sorts_as_nothing() -> None:
    table = page_parts.table(
        ("q", "d"), [[page_parts.name_cell("a"), page_parts.duration_cell(None)]]
    )
    assert f'<td data-value="">{DASH}</td>' in table


def test_columns_of_names_are_marked() -> None:
    table = page_parts.table(("a", "b", "n"), [], names=2)
    assert table.count('class="name"') == 2
    assert table.count("<button>") == 3


def test_a_long_table_scrolls_by_itself() -> None:
    row = [page_parts.count_cell(1_234)]
    assert "tall" not in page_parts.table(("n",), [row] * 14)
    assert "tall" in page_parts.table(("n",), [row] * 15)
    assert '<td data-value="1234">1,234</td>' in page_parts.table(("n",), [row])


def test_a_rate_needs_a_time() -> None:
    assert page_parts.rate_cell(5, 0).value is None
    assert page_parts.rate_cell(5, 1_000_000).text == "5/s"


def test_a_legend_escapes_its_names() -> None:
    assert "&lt;b&gt;" in page_parts.legend([("s1", "<b>")])


def test_a_chart_is_drawn_for_both_widths() -> None:
    drawn = page_parts.in_both_widths(str)
    assert drawn == f'<div class="wide">{WIDE}</div><div class="narrow">{NARROW}</div>'
