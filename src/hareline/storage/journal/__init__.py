"""The journal: an append-only log of records in segment files. It knows records, not messages."""
