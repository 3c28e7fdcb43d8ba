"""TLS: certificates from files, the contexts made of them, handshakes, and the encrypted stream."""
