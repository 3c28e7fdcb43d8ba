"""Storage of messages and definitions: the interface, in memory, and on disk."""
