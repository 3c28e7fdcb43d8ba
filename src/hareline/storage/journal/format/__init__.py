"""The octets of the journal: docs/journal-format.md as constants and small functions, without I/O.

Decoders take the payload of a record whose checksum matches and raise ``MalformedRecord``. What is
declared here for a version never changes. ``storage.store`` packs what is frequent by the Structs.
"""
