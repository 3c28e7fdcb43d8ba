"""Measures the HTTP API and the web UI, idle and under a full message load."""
