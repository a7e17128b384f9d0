"""Token buckets: how much a client may use, and how long it waits after more than that.

Apache Kafka measures bytes and time over sampled windows (KIP-13) and mutations with a token bucket
(KIP-599). Here all are buckets that hold what Kafka's window lets through at once: an idle client
may use as much in a burst, a busy one gets its rate, and does so without the window's echo (a burst
that leaves the window is followed by the next one).

A window forgets what has left it; who took that is muted for as long as it takes, and the others
are not. So here others share what one request owes for about a window of it. Mutations are never
forgotten.
"""

import sys
from typing import Final

LEAST_RATE: Final = sys.float_info.min
"""Tokens a second; anything less is as good as this, and may be too small to divide by."""

MAX_WAIT_S: Final = (2**31 - 1) // 1000
"""The longest time that throttle_time_ms can say."""

MIN_WAIT_S: Final = 0.01
"""What is owed for less than this is not worth a wait: timers fire a little early, and then a
client that waited as it was told would be told to wait again. It stays owed."""


MOST_OWED: Final = 6
"""Full buckets that a bucket which forgets may owe. Fewer would let very many connections that all
owe a little have more than their rate; more would outlast who took too much by minutes."""


class TokenBucket:
    """Fills at `rate` tokens a second up to `rate * burst_s`; what is taken too much is a debt.

    Time never goes backwards; it is a parameter, so that tests have their own.

    Args:
        forgets: what is taken at once adds at most a full bucket to what is owed, up to MOST_OWED.
    """

    __slots__ = ("_at_s", "_burst_s", "_forgets", "_rate", "_tokens")

    def __init__(self, rate: float, *, burst_s: float, now_s: float, forgets: bool = False) -> None:
        self._rate = max(rate, LEAST_RATE)
        self._burst_s = burst_s
        self._forgets = forgets
        self._at_s = now_s
        self._tokens = self._rate * burst_s

    @property
    def rate(self) -> float:
        return self._rate

    @property
    def capacity(self) -> float:
        """The most that can be taken without a wait."""
        return self._rate * self._burst_s

    def change_rate(self, rate: float, now_s: float) -> None:
        """Go on with another rate; a debt stays one, what was saved up is as long as before."""
        self._refill(now_s)
        if self._tokens > 0:
            self._tokens = min(self._tokens / self._rate, self._burst_s) * rate
        self._rate = max(rate, LEAST_RATE)
        if self._forgets:
            self._tokens = max(self._tokens, -MOST_OWED * self.capacity)

    def take(self, amount: float, now_s: float) -> float:
        """Use `amount`, whether or not it is there; return how long who took it waits."""
        self._refill(now_s)
        before = self._tokens
        self._tokens -= amount
        wait_s = self.wait_s(now_s)
        if self._forgets:
            most_owed = max(min(before, 0.0) - self.capacity, -MOST_OWED * self.capacity)
            self._tokens = max(self._tokens, most_owed)
        return wait_s

    def wait_s(self, now_s: float, *, more: float = 0.0) -> float:
        """Return how long it takes until nothing is owed, had `more` been taken; 0 if nothing is.

        Returns:
            at least MIN_WAIT_S, at most MAX_WAIT_S, or 0.
        """
        self._refill(now_s)
        owed_s = (more - self._tokens) / self._rate
        return min(owed_s, MAX_WAIT_S) if owed_s >= MIN_WAIT_S else 0.0

    def _refill(self, now_s: float) -> None:
        grown = self._tokens + (now_s - self._at_s) * self._rate
        self._tokens = min(grown, self.capacity)
        self._at_s = now_s
