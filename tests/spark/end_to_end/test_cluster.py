"""Source and sink on executors of a cluster, which share nothing with the driver but the broker."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from tests.spark.end_to_end import cluster_job
from tests.support.broker_process import BrokerProcess
from tests.support.raw_client import RawClient
from tests.support.sink_broker import declare, options_for, source_options_for, take_all

pytestmark = pytest.mark.acceptance

COUNT = 3_000
SECONDS_MAX = 240


def spark_home(folder: Path) -> Path:
    """A home of Spark with what pyspark has, since executors of such a cluster work in it."""
    home = folder / "spark"
    home.mkdir()
    for each in Path(pyspark.__file__).parent.iterdir():
        (home / each.name).symlink_to(each)
    return home


def test_executors_of_a_cluster_read_and_write(broker: BrokerProcess, tmp_path: Path) -> None:
    declare(broker, "from", {"x-queue-type": "stream"}, durable=True)
    declare(broker, "to", durable=True)
    with RawClient((broker.host, broker.port)) as client:
        client.open()
        client.select_confirms()
        client.publish("from", *(b"%d" % number for number in range(COUNT)))
        client.read_confirms(COUNT)
    job = {
        "source": source_options_for(broker, queue="from", maxRecordsPerPartition="500"),
        "sink": options_for(broker, exchange="", routingKey="to"),
    }
    (tmp_path / "job.json").write_text(json.dumps(job), encoding="utf-8")
    ran = subprocess.run(
        [sys.executable, cluster_job.__file__, str(tmp_path / "job.json")],
        env={**os.environ, "SPARK_HOME": str(spark_home(tmp_path))},
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    found = json.loads(ran.stdout.splitlines()[-1])
    assert found["tasks"] == 6
    assert len(found["executors"]) == 2
    written = sorted(
        (int(body), properties.message_id) for _, properties, body in take_all(broker, "to")
    )
    assert written == [(number, f"row {number}") for number in range(COUNT)]
