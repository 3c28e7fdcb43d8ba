"""One Spark session for all tests of Spark, or one line that says why they are skipped.

Each test below this folder gets the marker ``spark``. Where Spark cannot run, no module here is
imported, so a module may import pyspark and pyarrow at its top.
"""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hareline.spark.errors import EnvironmentMissing
from hareline.spark.session import check_environment, session
from tests.support.broker_process import BrokerProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = Path(__file__).parent
#: Two tasks at a time, and four attempts for each: retries are part of what is tested.
MASTER = "local[2,4]"
#: Also on a machine that has much else to do; Spark takes seconds for what is small.
SECONDS_MAX = 600


def _what_is_missing() -> str | None:
    try:
        check_environment()
    except EnvironmentMissing as error:
        return str(error)
    return None


MISSING = _what_is_missing()


class _SkippedModule(pytest.Module):
    """Reports that it is skipped, and imports nothing."""

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        raise pytest.skip.Exception(f"tests of Spark: {MISSING}", allow_module_level=True)


def pytest_pycollect_makemodule(
    module_path: Path, parent: pytest.Collector
) -> pytest.Module | None:
    """Collect a module of this folder as skipped if Spark cannot run."""
    if MISSING is None or HERE not in module_path.parents:
        return None
    module: pytest.Module = _SkippedModule.from_parent(parent, path=module_path)
    return module


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all tests of this folder, and give those more time that do not say how much."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.spark)
            # py4j leaves sockets to the collector, which finds them in whatever test it runs
            item.add_marker(
                pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
            )
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"))
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(SECONDS_MAX))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The one session of the run; a test must neither stop it nor leave streams running."""
    folder = tmp_path_factory.mktemp("spark")
    made = session(
        "hareline-tests",
        master=MASTER,
        is_short=True,
        settings={
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.local.dir": str(folder / "local"),
        },
    )
    try:
        yield made
    finally:
        made.stop()
        with warnings.catch_warnings():  # sockets that Spark leaves open are not later tests'
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()


@pytest.fixture(scope="module")
def broker(daemon: BrokerProcess) -> BrokerProcess:
    return daemon
