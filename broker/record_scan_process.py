"""A process that scans batches of very many records.

It is told what to do through a pipe, one batch at a time, and ends when that closes: with the
broker, however the broker ends. It gives way to the broker where processors are short.
"""

import multiprocessing
import signal
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any, Concatenate, Final, NoReturn, ParamSpec, TypeVar

from broker.upkeep.giving_way import give_way
from protocol.errors import InvalidRecords, ProtocolError
from storage.errors import NothingWritten

P = ParamSpec("P")
T = TypeVar("T")

LONGEST_S: Final = 5.0
"""Of processor time, which a busy machine does not use up for an honest client."""

PATIENCE_S: Final = 30.0
"""For an answer, and for the start; the time of a clock."""

_NICENESS: Final = 10

_spawn = multiprocessing.get_context("spawn")  # a forked child would share the event loop's state


class RecordScanProcess:
    """The broker's side; `ask` is called by one thread, `close` by any."""

    def __init__(self) -> None:
        self._process: SpawnProcess | None = None
        self._pipe: Connection | None = None
        self._closed = False

    def ask(
        self,
        work: Callable[Concatenate[memoryview, P], T],
        batch: memoryview,
        *arguments: P.args,
        **options: P.kwargs,
    ) -> T:
        """Return what `work`, a function of a module, returns for the batch; blocks meanwhile.

        Raises:
            InvalidRecords: it took longer than LONGEST_S, and was given up.
            NothingWritten: the process has died, or did not answer in time; ask again.
            ProtocolError: what `work` raises.
        """
        try:
            pipe = self._running()
            pipe.send((LONGEST_S, work, bytes(batch), arguments, options))
            result, refusal = _next_from(pipe)
        except (EOFError, OSError) as error:
            self._end()
            raise NothingWritten("the process that looks into records does not answer") from error
        if refusal is not None:
            raise refusal
        answer: T = result
        return answer

    def close(self) -> None:
        """End the process; who waits for it hears that it has died."""
        self._closed = True
        process = self._process
        if process is not None:
            process.kill()

    def _running(self) -> Connection:
        """Return the pipe to the process, which is started if there is none."""
        if self._closed:
            raise NothingWritten("the broker stops")
        if self._process is None or self._pipe is None or not self._process.is_alive():
            self._end()
            self._pipe = self._start()
        return self._pipe

    def _start(self) -> Connection:
        pipe, theirs = _spawn.Pipe()
        try:
            with theirs:
                process = _spawn.Process(target=answer_scans, args=(theirs,), daemon=True)
                process.start()
            self._process = process  # not before: what has not begun cannot be ended
            if self._closed:  # meanwhile, and `close` did not see it
                process.kill()
            _next_from(pipe)  # it has started
        except (EOFError, OSError):
            pipe.close()
            raise
        return pipe

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process = None
        if self._pipe is not None:
            self._pipe.close()
            self._pipe = None


def _next_from(pipe: Connection) -> Any:
    if not pipe.poll(PATIENCE_S):
        raise EOFError("the process did not answer in time")
    return pipe.recv()


def answer_scans(pipe: Connection) -> None:
    """Be that process."""
    for number in (signal.SIGINT, signal.SIGHUP):  # Ctrl-C is for the broker, which then ends this
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGPROF, _give_up)
    give_way(_NICENESS)
    pipe.send(True)
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):  # the broker is gone
        while True:
            pipe.send(_answer(*pipe.recv()))


def _answer(
    longest_s: float,
    work: Callable[..., Any],
    batch: bytes,
    arguments: tuple[Any, ...],
    options: dict[str, Any],
) -> tuple[Any, ProtocolError | None]:
    try:
        signal.setitimer(signal.ITIMER_PROF, longest_s)
        return work(memoryview(batch), *arguments, **options), None
    except ProtocolError as error:
        return None, error
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _give_up(*_: object) -> NoReturn:
    raise InvalidRecords("its records took too long to look through; send fewer of them at a time")
