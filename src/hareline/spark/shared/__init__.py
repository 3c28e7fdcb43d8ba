"""Options and times that reading, writing and pipelines share."""
