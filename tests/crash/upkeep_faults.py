"""The upkeep processes of brokers: made to build and sweep all the time, killed, and paused.

What they do is small and often, so that a moment that nobody has chosen meets each of its steps.
"""

import json
import signal
import time
from contextlib import suppress
from http.client import HTTPException
from typing import Final
from urllib.request import urlopen

import psutil

from storage.config import KiB
from tests.crash.processes import kill_if_there, until
from tests.support.broker import BrokerProcess

MODULE: Final = "broker.upkeep.upkeep_main"
BUSY: Final = {
    "STREAMHOUSE_UPKEEP__BUILD_INTERVAL_MS": "500",
    "STREAMHOUSE_UPKEEP__SEGMENT_BYTES": str(256 * KiB),
    "STREAMHOUSE_UPKEEP__SEGMENT_ROWS": "32",
    "STREAMHOUSE_UPKEEP__SWEEP_INTERVAL_MS": "1000",
    "STREAMHOUSE_UPKEEP__DELETE_DELAY_MS": "5000",
}
BUSY_ROUNDS: Final = ("log.retention.check.interval.ms=1000", "log.cleaner.backoff.ms=500")
CALL_S: Final = 5.0


def upkeep_of(broker: BrokerProcess) -> list[psutil.Process]:
    """Return the broker's upkeep processes; none if it has just begun, or has ended."""
    found = []
    with suppress(psutil.NoSuchProcess):
        for child in psutil.Process(broker.pid).children():
            with suppress(psutil.NoSuchProcess):
                if child.status() != psutil.STATUS_ZOMBIE and MODULE in child.cmdline():
                    found.append(child)
    return found


def kill_upkeep(broker: BrokerProcess) -> None:
    """End the broker's upkeep process at once, if it has begun yet."""
    for victim in upkeep_of(broker):
        kill_if_there(victim)


def pause_upkeep(broker: BrokerProcess, wait_s: float) -> None:
    """Let the broker's upkeep process stand still: what it has read is old when it goes on."""
    victims = upkeep_of(broker)
    for victim in victims:
        _signal(victim, signal.SIGSTOP)
    time.sleep(wait_s)
    for victim in victims:
        _signal(victim, signal.SIGCONT)


def await_upkeep(broker: BrokerProcess) -> None:
    """Return when the broker's upkeep process runs and reports.

    Raises:
        AssertionError: it did not come back.
    """
    until(lambda: _reports(broker) or None, "the upkeep process")


def _reports(broker: BrokerProcess) -> bool:
    try:
        with urlopen(f"http://{broker.http}/health/ready", timeout=CALL_S) as response:
            told = json.loads(response.read())
    except (OSError, HTTPException):  # it says that it is not ready, or does not come to say so
        return False
    return bool(told["details"]["upkeep"] == "ok") and len(upkeep_of(broker)) == 1


def _signal(victim: psutil.Process, number: signal.Signals) -> None:
    with suppress(psutil.NoSuchProcess):
        victim.send_signal(number)
