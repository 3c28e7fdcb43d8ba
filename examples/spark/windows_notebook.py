# %% [markdown]
# # Clicks per page and ten seconds
# The program `windows.py` beside this file, cell by cell. Open it in an editor that knows cells
# (`# %%`), or run it as it is: `python examples/spark/windows_notebook.py`. It needs what
# `windows.py` needs, and starts a broker unless AMQP_URL and HARELINE_HTTP_URL name one.

# %%
import contextlib
import json
import tempfile

import pika
import windows
from pyspark.sql import SparkSession

cells = contextlib.ExitStack()
url, http_url = cells.enter_context(windows.broker())
checkpoint = cells.enter_context(tempfile.TemporaryDirectory())
print("the broker is at", url)

# %% [markdown]
# A stream keeps what it has shown, so Spark can read it again. The queue gets the results.

# %%
channel = cells.enter_context(pika.BlockingConnection(pika.URLParameters(url))).channel()
channel.queue_declare("clicks", durable=True, arguments={"x-queue-type": "stream"})
channel.queue_declare("clicks.counted", durable=True)
clicks = windows.clicks()
windows.publish(url, clicks)
print(len(clicks), "clicks, the first at", clicks[0][0])

# %% [markdown]
# The query reads the stream from its beginning, counts, and writes each window once it is closed.
# `isStreaming`, `lastProgress` and `exception()` of the query say how it is.

# %%
query = windows.count_in_spark(url, http_url, checkpoint)
query.processAllAvailable()
print(query.lastProgress["sources"][0]["endOffset"])

# %% [markdown]
# What came back into the broker.

# %%
while (message := channel.basic_get("clicks.counted", auto_ack=True))[0] is not None:
    counted = json.loads(message[2])
    print(counted["from"], counted["page"], counted["count"])

# %% [markdown]
# The same clicks as a batch: any number of programs may read the stream, each as often as it likes.

# %%
spark = SparkSession.active()
batch = spark.read.format("amqp").options(url=url, httpUrl=http_url, queue="clicks")
print(batch.load().count(), "messages in the stream")

# %%
query.stop()
spark.stop()
cells.close()
