"""ShopFlow: a running total of what was paid is killed, and neither forgets nor adds twice."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.clients.confluent import Confluent
from tests.clients.records import SentRecord
from tests.clients.topics import new_topic
from tests.transactions.client import Library, read_values
from tests.transactions.shopflow_totals import TotalsSettings

ROOT: Final = Path(__file__).parents[2]
SESSION_MS: Final = 6_000  # the next instance waits for it, and this one must not be late
PAID: Final = (10, 25, 5, 60)
TOTALS: Final = ["10", "35", "40", "100"]


class Totals:
    """The program that keeps the total."""

    def __init__(self, settings: TotalsSettings) -> None:
        self._process = subprocess.Popen(
            (sys.executable, "-m", "tests.transactions.shopflow_totals", settings.to_json()),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )

    def until(self, event: str, total: int) -> None:
        """Return when it has said this.

        Raises:
            AssertionError: it has ended instead.
        """
        assert self._process.stdout is not None
        for line in self._process.stdout:
            said = json.loads(line)
            if (said["event"], said["total"]) == (event, total):
                return
        raise AssertionError(f"it ended before {event} {total}")

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def stop(self) -> int:
        """Have it leave its group; return its exit code."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        return self._process.wait()


@contextmanager
def totals(settings: TotalsSettings) -> Iterator[Totals]:
    running = Totals(settings)
    try:
        yield running
    finally:
        running.kill()


@pytest.fixture
def shop(bootstrap: str) -> TotalsSettings:
    """Return the settings of a processor whose topics are there and empty."""
    confluent = Confluent(bootstrap=bootstrap)
    events = new_topic(confluent, "order_events")
    return TotalsSettings(
        bootstrap=bootstrap,
        group=events,
        events=events,
        totals=new_topic(confluent, "paid_totals"),
        session_ms=SESSION_MS,
    )


def pay(shop: TotalsSettings, *numbers: int) -> None:
    """Have the payment service say that some orders are paid."""
    events = [
        {"event_id": f"e-{n}", "order_id": 1001 + n, "event_type": "paid", "amount": PAID[n]}
        for n in numbers
    ]
    records = [SentRecord(key=None, value=json.dumps(event).encode()) for event in events]
    Confluent(bootstrap=shop.bootstrap).produce(shop.events, records)


def test_the_total_goes_on_where_it_was_killed(
    shop: TotalsSettings, libraries: dict[str, Library]
) -> None:
    # Given three paid events and a total of them
    pay(shop, 0, 1, 2)
    with totals(shop) as running:
        running.until("total", 40)
        # When it is killed after the third
        running.kill()
    pay(shop, 3)

    # Then a new instance goes on at 100, and has not added anything again
    with totals(shop) as running:
        running.until("total", 100)
        assert running.stop() == 0
    for library in libraries.values():
        assert read_values(library, shop.totals, len(TOTALS)) == TOTALS
        assert read_values(library, shop.totals, len(TOTALS), committed=False) == TOTALS


def test_a_total_that_was_not_committed_is_made_again(
    shop: TotalsSettings, libraries: dict[str, Library]
) -> None:
    # Given an instance that has sent the third total and its offset, and not committed them
    pay(shop, 0, 1, 2, 3)
    halting = TotalsSettings(
        bootstrap=shop.bootstrap,
        group=shop.group,
        events=shop.events,
        totals=shop.totals,
        session_ms=SESSION_MS,
        halts_at=40,
    )
    with totals(halting) as running:
        running.until("halted", 40)
        # When it is killed there
        running.kill()

    # Then a new instance makes it again, and only this one is read as committed
    with totals(shop) as running:
        running.until("total", 100)
        assert running.stop() == 0
    everything = ["10", "35", "40", "40", "100"]
    for library in libraries.values():
        assert read_values(library, shop.totals, len(TOTALS)) == TOTALS
        assert read_values(library, shop.totals, len(everything), committed=False) == everything
