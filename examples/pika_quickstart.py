"""Publish one message to a running broker and consume it."""

import os

import pika

url = os.environ.get("AMQP_URL", "amqp://guest:guest@127.0.0.1:5672/%2F")
with pika.BlockingConnection(pika.URLParameters(url)) as connection:
    channel = connection.channel()
    channel.queue_declare("hello")
    channel.basic_publish(exchange="", routing_key="hello", body=b"Hello, Hareline!")
    for method, _properties, body in channel.consume("hello"):
        print(body.decode())
        channel.basic_ack(method.delivery_tag)
        break
