"""What one process asks of its object store, seen from the outside: how much, and how it is doing.

A store that is opened with a StoreTraffic asks it for places and tells it every outcome; whoever
opened it may look at it (broker/http/http_port.py, storage/metrics.py).
"""

import time
from collections.abc import Callable
from typing import Final

from storage.objects.flow_limit import FlowLimit
from storage.objects.hedged_gets import HedgedGets
from storage.objects.store_health import StoreHealth

MAX_IN_FLIGHT: Final = 64


class StoreTraffic:
    """Attributes: gets and puts have limits of their own, so that reads never hold back a write."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.health = StoreHealth(clock)
        self.gets = FlowLimit(MAX_IN_FLIGHT, clock=clock)
        self.puts = FlowLimit(MAX_IN_FLIGHT, clock=clock)
        self.hedges = HedgedGets(clock)
