"""From live objects to ``statistics.facts``: what they are, how busy, and what they wait for.

Called by the HTTP API and the metrics for each object they show, and by ``statistics.sources``.
Everything is read, nothing changed; the cost of a call does not grow with the depth of a queue.
"""

from __future__ import annotations
