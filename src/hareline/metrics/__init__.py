"""Prometheus: what the broker counts and measures, as text in RabbitMQ's names."""
