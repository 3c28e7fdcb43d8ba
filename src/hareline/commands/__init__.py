"""The commands of ``hareline`` that ask a running broker, a module for each group of them."""
