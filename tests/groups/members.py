"""Members of groups, started and waited for by the tests."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Condition, Thread
from typing import Any, Final

from tests.groups.java_member import java_command
from tests.groups.member import PATIENCE_S, Library, Member
from tests.groups.settings import Settings

ROOT: Final = Path(__file__).parents[2]


class Members:
    """All members of one test; made by `running_members`."""

    def __init__(self, bootstrap: str, home: Path) -> None:
        self.bootstrap = bootstrap
        self.all: list[Member] = []
        self._home = home
        self._heard = Condition()
        self._threads: list[Thread] = []

    def start(self, library: Library, **settings: Any) -> Member:
        """Start a member; `settings` are those of Settings, without bootstrap."""
        chosen = Settings(bootstrap=self.bootstrap, **settings)
        errors = self._home / f"{len(self.all)}-{chosen.name}.log"
        with errors.open("w") as log:
            process = subprocess.Popen(
                _command(library, chosen),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=ROOT,
                env=os.environ,
            )
        member = Member(
            library=library, settings=chosen, process=process, errors=errors, heard=self._heard
        )
        thread = Thread(target=member.hear, name=chosen.name)
        thread.start()
        self._threads.append(thread)
        self.all.append(member)
        return member

    @property
    def running(self) -> list[Member]:
        return [member for member in self.all if member.runs]

    def until(
        self, condition: Callable[[], bool], what: str, timeout_s: float = PATIENCE_S
    ) -> None:
        """Return when a condition on what the members said has come true.

        Raises:
            AssertionError: it has not, in time, or a member has ended by itself before.
        """

        def came_or_cannot() -> bool:
            return condition() or any(member.silent for member in self.running)

        with self._heard:
            began_s = time.monotonic()
            self._heard.wait_for(came_or_cannot, timeout_s)
            assert condition(), f"no {what} in {time.monotonic() - began_s:.1f} s"

    def until_shared(
        self, partition_count: int, among: Sequence[Member] = (), timeout_s: float = PATIENCE_S
    ) -> None:
        """Return when the running members (or `among`) have an even share of all partitions."""
        sharing = among or self.running
        names = ", ".join(member.name for member in sharing)
        what = f"even share of {partition_count} partitions among {names}"
        self.until(lambda: is_shared(sharing, partition_count), what, timeout_s)

    def read(self) -> dict[int, set[int]]:
        """Return the offsets of each partition that any member has read."""
        offsets: dict[int, set[int]] = {}
        for member in self.all:
            for partition, read in member.read().items():
                offsets.setdefault(partition, set()).update(read)
        return offsets

    def until_read(self, record_counts: dict[int, int]) -> None:
        """Return when every record, counted by partition, was read by some member."""

        def all_read() -> bool:
            read = self.read()
            return all(
                len(read.get(partition, ())) >= count for partition, count in record_counts.items()
            )

        self.until(all_read, f"reading of all of {record_counts}")

    def stop(self) -> None:
        """Have all that run leave, at the same time."""
        running = self.running
        for member in running:
            member.leave()
        for member in running:
            member.stop()

    def end(self) -> None:
        """Leave no process and no thread, whatever state the test has left them in."""
        for member in self.all:
            member.process.kill()
            member.process.wait()
        for thread in self._threads:
            thread.join()
        for member in self.all:
            for pipe in (member.process.stdin, member.process.stdout):
                if pipe is not None:
                    pipe.close()

    def report(self) -> str:
        return "\n".join(member.report() for member in self.all)


@contextmanager
def running_members(bootstrap: str, home: Path) -> Iterator[Members]:
    """Give a test its members; none runs after the block. A failure tells what they said."""
    members = Members(bootstrap, home)
    try:
        yield members
    except AssertionError as error:
        error.add_note(members.report())
        raise
    finally:
        members.end()


def is_shared(sharing: Iterable[Member], partition_count: int) -> bool:
    """Tell whether each partition has one owner, and no owner two more than another."""
    owned = [member.owned for member in sharing]
    sizes = [len(partitions) for partitions in owned]
    together = sorted(partition for partitions in owned for partition in partitions)
    return together == list(range(partition_count)) and max(sizes) - min(sizes) <= 1


def _command(library: Library, settings: Settings) -> Sequence[str]:
    if library == "java":
        return java_command(settings)
    return (sys.executable, "-m", f"tests.groups.{library}_member", settings.to_json())
