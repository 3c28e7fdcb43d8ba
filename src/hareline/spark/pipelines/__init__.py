"""Pipelines on streams in Spark: archive, replay, report. Plain functions of a session."""
