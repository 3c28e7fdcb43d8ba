"""``python -m hareline`` is the ``hareline`` command."""

from __future__ import annotations

from hareline.cli import main

if __name__ == "__main__":
    main()
