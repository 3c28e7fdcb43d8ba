"""``hareline deadletter``: dead messages in files: write, look at, publish again."""
