"""The composition of a broker: what makes its parts and starts and stops them."""
