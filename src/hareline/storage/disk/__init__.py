"""Open a data directory: definitions, journal, recovery and store together."""
