"""Producers that wait for their answers come back together, if the next object waits for them.

A producer with few requests under way (Java: five at most) sends its next when it is answered. An
object that is sealed while those are coming takes what came before alone, and they wait for the one
after it: each is then answered every second object. So the next object waits for as many batches
as were just answered, as long as they come one soon after the other.

From producers that send whether they are answered or not, batches come at the rate that they always
do. Where those that were waited for did not come much faster than that, the next object waits for
nobody, then two, four and so on, MOST_PASSED_OVER in the end.
"""

from typing import Final

GAP: Final = 0.5
"""Until the next batch, as a share of the time that the answered object took. With half as much, a
Java producer on a busy machine is too late more often than not (bench/README.md)."""

LONGEST_GAP_S: Final = 0.005  # a slow store is no reason to wait longer for clients
GAPS: Final = 3  # as long at most, all told
WORTH_IT: Final = 0.5
FASTER: Final = 1.5
MOST_PASSED_OVER: Final = 16


class Returns:
    """What a writer knows of it; times are seconds of its clock."""

    def __init__(self) -> None:
        self.missing = 0
        """Batches that are still waited for."""

        self._expected = 0
        self._took_s = 0.0
        self._began_s = 0.0
        self._gap_s = 0.0
        self._until_s = 0.0
        self._to_pass_over = 0
        self._if_in_vain = 1  # so many are then passed over

    def answered(self, batches: int, took_s: float, now_s: float) -> None:
        """So many were answered just now, `took_s` after their object was sealed."""
        if self._to_pass_over:
            self._to_pass_over -= 1
            return
        self._expected = self.missing = batches
        self._took_s, self._began_s = took_s, now_s
        self._gap_s = min(took_s * GAP, LONGEST_GAP_S)
        self._until_s = now_s + self._gap_s

    def arrived(self, now_s: float) -> bool:
        """One that is missing came; return whether it is the last."""
        self.missing -= 1
        self._until_s = now_s + self._gap_s
        return not self.missing

    def wait_s(self, now_s: float) -> float:
        """Return for how long the next one is worth waiting for."""
        if not self.missing:
            return 0.0
        until_s = min(self._until_s, self._began_s + self._gap_s * GAPS)
        return max(until_s - now_s, 0.0)

    def sealed(self, now_s: float) -> None:
        """The next object takes what has come; learn whether it was right to wait."""
        if not self._expected:
            return
        came = (self._expected - self.missing) / self._expected
        # At the rate at which all of them came, as many would have come meanwhile:
        usual = (now_s - self._began_s) / self._took_s if self._took_s else 0.0
        if came >= max(WORTH_IT, usual * FASTER):
            self._if_in_vain = 1
        else:
            self._to_pass_over = self._if_in_vain
            self._if_in_vain = min(2 * self._if_in_vain, MOST_PASSED_OVER)
        self._expected = self.missing = 0
