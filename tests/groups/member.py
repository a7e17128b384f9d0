"""One member of a group: a stock consumer in a process of its own, and what it says."""

import json
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from threading import Condition
from typing import Any, Final, Literal

from tests.groups.settings import Settings

Library = Literal["librdkafka", "aiokafka", "java"]

PATIENCE_S: Final = 120.0
SHOWN_EVENTS: Final = 12
SHOWN_CHARACTERS: Final = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One line that a member said; telling.py lists them.

    Attributes:
        at_s: seconds since 1970, by the member's own look at this machine's clock.
    """

    name: str
    at_s: float
    fields: dict[str, Any]

    @property
    def partitions(self) -> set[int]:
        return set(self.fields["partitions"])

    @property
    def offsets(self) -> dict[int, Any]:
        return {int(partition): found for partition, found in self.fields["offsets"].items()}


@dataclass(slots=True)
class Member:
    """One consumer.

    Attributes:
        events: in the order said; appended by a thread, under `heard`.
        owned: partitions assigned and not yet revoked.
        ended_s: when it was killed or told to leave; None while it runs.
        killed: it did not leave but was killed.
        silent: its output has ended, and so has it.
        errors: what it wrote to its standard error.
    """

    library: Library
    settings: Settings
    process: "subprocess.Popen[str]"
    errors: Path
    heard: Condition
    events: list[Event] = field(default_factory=list)
    owned: set[int] = field(default_factory=set)
    ended_s: float | None = None
    killed: bool = False
    silent: bool = False

    @property
    def name(self) -> str:
        return self.settings.name

    @property
    def runs(self) -> bool:
        return self.ended_s is None

    def said(self, *names: str, after_s: float = 0) -> list[Event]:
        """Return its events of some names, of a moment or later."""
        with self.heard:
            return [one for one in self.events if one.name in names and one.at_s >= after_s]

    def read(self) -> dict[int, list[int]]:
        """Return the offsets read from each partition, in order, repetitions included."""
        offsets: dict[int, list[int]] = {}
        for event in self.said("records"):
            offsets.setdefault(event.fields["partition"], []).extend(event.fields["offsets"])
        return offsets

    def hear(self) -> None:
        """Take in what it says until it ends; a line that kill -9 has cut does not count."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if not line.endswith("\n"):
                break
            fields = json.loads(line)
            event = Event(name=fields.pop("event"), at_s=fields.pop("at_s"), fields=fields)
            with self.heard:
                self.events.append(event)
                self._follow(event)
                self.heard.notify_all()
        with self.heard:
            self.silent = True
            self.heard.notify_all()

    def _follow(self, event: Event) -> None:
        match event.name:
            case "assigned":
                self.owned |= event.partitions
            case "revoked" | "lost":
                self.owned -= event.partitions
            case "leaving":
                self.owned.clear()
            case _:
                pass  # the others do not change who owns what

    def kill(self) -> None:
        """End it at once, as a crash does."""
        self.ended_s = time.time()
        self.killed = True
        self.process.kill()
        self.process.wait()

    def stop(self) -> Event:
        """Have it commit and leave; return its word that it is closed.

        Raises:
            AssertionError: it ended with an error.
        """
        self.leave()
        code = self.process.wait(PATIENCE_S)
        assert code == 0, f"{self.name} ended with {code}\n{self.report()}"
        with self.heard:
            assert self.heard.wait_for(lambda: self.events[-1].name == "closed", PATIENCE_S)
            return self.events[-1]

    def leave(self) -> None:
        """Tell it to leave, without waiting for it."""
        self.ended_s = time.time()
        assert self.process.stdin is not None
        self.process.stdin.close()

    def report(self) -> str:
        with self.heard:
            last = [
                f"  {one.at_s:.3f} {one.name} {one.fields}"
                for one in self.events
                if one.name != "records"
            ]
        said = self.errors.read_text()[-SHOWN_CHARACTERS:]
        state = "runs" if self.runs else f"{'killed' if self.killed else 'left'} {self.ended_s:.3f}"
        return "\n".join([f"{self.name} {state}, owns {self.owned}", *last[-SHOWN_EVENTS:], said])
