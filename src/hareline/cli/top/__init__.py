"""``hareline top``: a live screen of rates, depths, and the busiest queues and connections."""
