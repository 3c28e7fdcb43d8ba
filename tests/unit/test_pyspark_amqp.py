"""Spark finds the data source by itself; without pyspark or pyarrow nothing breaks."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
BLOCKED = """
import sys
for name in {blocked!r}:
    sys.modules[name] = None
import pyspark_amqp
print(hasattr(pyspark_amqp, "DefaultSource"), "starlette" in sys.modules, "pyarrow" in sys.modules)
"""

has_pyspark = importlib.util.find_spec("pyspark") is not None


def run(*blocked: str) -> str:
    """What a fresh interpreter prints that cannot import these."""
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED.format(blocked=blocked)],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT / "src",
    )
    return done.stdout.strip()


def test_without_pyspark_there_is_no_source() -> None:
    assert run("pyspark") == "False False False"


@pytest.mark.skipif(not has_pyspark, reason="pyspark is not installed")
def test_without_pyarrow_there_is_a_source() -> None:
    assert run("pyarrow").startswith("True False")


@pytest.mark.skipif(not has_pyspark, reason="pyspark is not installed")
def test_spark_is_given_a_data_source() -> None:
    from pyspark.sql.datasource import DataSource

    import pyspark_amqp

    assert issubclass(pyspark_amqp.DefaultSource, DataSource)
    assert pyspark_amqp.DefaultSource.name() == "amqp"


def test_the_wheel_has_the_module() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    included = project["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"]
    assert "src/pyspark_amqp.py" in included
    assert (ROOT / "src" / "pyspark_amqp.py").is_file()
