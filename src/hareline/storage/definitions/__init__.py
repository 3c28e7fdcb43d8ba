"""Durable exchanges, queues and bindings, and Qpid's hosts, in one SQLite file."""
