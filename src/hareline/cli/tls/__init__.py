"""``hareline tls``: certificates for trying TLS, from an authority of one's own."""
