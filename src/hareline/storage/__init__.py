"""Where messages and definitions are kept: the interface, in memory, and on disk."""
