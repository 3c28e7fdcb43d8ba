"""Parts of every queue: entries, consumers, lanes, credit, and the ports between them."""
