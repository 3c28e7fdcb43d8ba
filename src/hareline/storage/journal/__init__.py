"""The journal: an append-only log of records in segment files; it knows no messages."""
