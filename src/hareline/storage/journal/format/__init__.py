"""The octets of the journal: docs/journal-format.md as constants and small functions.

Everything that reads or writes a journal goes by these modules; they do no I/O. Decoders take the
payload of a record whose checksum matches, and raise ``MalformedRecord`` where the octets are not a
valid one all the same. Encoders are for what is written seldom; ``storage.store`` packs messages
and settles itself, by the Struct objects.

Invariant: what is declared here for a version never changes; see "Versions" of that page.
"""
