"""Scans of the records of batches: off the event loop, few at a time, and never for long.

A batch of a megabyte may hold 64 of them, and millions of records. To scan usual batches takes a
thread a moment. What has very many records would keep the interpreter from the event loop again and
again for seconds: that is done by a process of its own (record_scan_process.py), which is started
when the first such batch comes. What takes it too much time is refused.

Connections take turns, so that one that sends many such batches waits for itself; and what has more
records than honest batches have is done by a second process, so that those wait a moment for each
connection, not seconds.
"""

import asyncio
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Concatenate, Final, ParamSpec, TypeVar

from broker.record_scan_process import RecordScanProcess
from broker.turns import Turns
from protocol.batch import read_header
from protocol.errors import ProtocolError

P = ParamSpec("P")
T = TypeVar("T")

AT_ONCE: Final = 2
MANY_RECORDS: Final = 5000
"""From here on a scan is work for the other process; a thread needs about ten milliseconds."""
VERY_MANY_RECORDS: Final = 50_000
"""From here on it is work for the second one; the first needs about a tenth of a second."""

SWITCH_S: Final = 0.0005
"""How long a scan may go on when the event loop has something to do. Python's own 5 ms, for each of
them and each time the loop wakes up, would be felt by every client."""


class RecordScans:
    """The scans of one broker."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="record-scan")
        self._turns = Turns(AT_ONCE)
        self._many, self._very_many = _ProcessScans(), _ProcessScans()

    async def scan(
        self,
        sender: str,
        work: Callable[Concatenate[memoryview, P], T],
        batch: memoryview,
        *arguments: P.args,
        **options: P.kwargs,
    ) -> T:
        """Return what `work`, a function of a module, returns for a batch of connection `sender`.

        Raises:
            InvalidRecords: it took too long.
            NothingWritten: the process that did it has died; it may be asked again.
            ProtocolError: what `work` raises.
        """
        record_count = read_header(batch).record_count
        if record_count >= MANY_RECORDS:
            of_process = self._many if record_count < VERY_MANY_RECORDS else self._very_many
            return await of_process.scan(sender, work, batch, *arguments, **options)

        def run() -> T:
            try:
                return work(batch, *arguments, **options)
            except ProtocolError as error:
                error.__context__ = None  # its frames have the records, decompressed
                raise error.with_traceback(None) from None

        if sys.getswitchinterval() > SWITCH_S:
            sys.setswitchinterval(SWITCH_S)
        async with self._turns.of(sender):
            return await asyncio.get_running_loop().run_in_executor(self._threads, run)

    def close(self) -> None:
        """End the processes, whatever they do, and scan no more."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._many.close()
        self._very_many.close()


class _ProcessScans:
    """Those that one process does, one at a time."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="record-scan-process")
        self._turns = Turns()
        self._process = RecordScanProcess()

    async def scan(
        self,
        sender: str,
        work: Callable[Concatenate[memoryview, P], T],
        batch: memoryview,
        *arguments: P.args,
        **options: P.kwargs,
    ) -> T:
        async with self._turns.of(sender):
            return await asyncio.get_running_loop().run_in_executor(
                self._thread, lambda: self._process.ask(work, batch, *arguments, **options)
            )

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)
        self._process.close()
