"""Durable store: batches of records and their books, freed segments, contents on disk."""
