"""``hareline migrate``: definitions, messages and streams of another broker, brought here."""
