"""The whole way of a message, as in ``bench_path``, with audit off, of some messages, and of all.

    python -m benchmarks.micro.bench_audit [--json FILE] [--repetitions N]

The stream is in memory and keeps 1 MiB, so this is what the broker's loop pays, without the disk.
"""

from __future__ import annotations

from benchmarks.micro.bench_path import Path, path
from benchmarks.micro.timing import finish

SHARES = {"off": 0.0, "sample:0.01": 0.01, "all": 1.0}


def main() -> None:
    for name, share in SHARES.items():
        path(f"publish to deliver, 100 B, audit {name}", Path(audit_share=share))
        subject = Path(ack_every=1, prefetch=1000, audit_share=share)
        path(f"publish to deliver to ack, 100 B, audit {name}", subject)
    finish()


if __name__ == "__main__":
    main()
