"""``hareline perf``: put load on a broker and measure rates and latencies."""
