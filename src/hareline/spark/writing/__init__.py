"""Sink of ``format("amqp")``: rows of Spark become messages that the broker has confirmed."""
