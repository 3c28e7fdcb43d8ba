"""Files are found, written and removed by path, and by URL through Hadoop."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from hareline.spark.pipelines import layout

pytestmark = pytest.mark.acceptance


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_what_is_written_is_there_until_it_is_removed(
    scheme: str, spark: SparkSession, tmp_path: Path
) -> None:
    folder = f"{scheme}{tmp_path}/größe"
    file = layout.joined(f"{folder}/", "a page.html")
    assert file == f"{folder}/a page.html"
    assert layout.names_in(spark, folder) == []
    for text in ("first", "<p>ü</p>"):
        layout.write_text(spark, file, text)
    assert (tmp_path / "größe" / "a page.html").read_text(encoding="utf-8") == "<p>ü</p>"
    assert layout.names_in(spark, folder) == ["a page.html"]
    layout.remove(spark, folder)
    assert not (tmp_path / "größe").exists()
