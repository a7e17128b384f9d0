"""Ctrl-C where there is nothing in hand. Nothing is imported here that takes a moment."""

import signal


class EndedByInterrupt:
    """Lets Ctrl-C end the process itself meanwhile.

    Python's own handler raises somewhere, which is a traceback while modules come, and only notes
    the signal: one that comes just before the terminal is read would be heard after the next key.

    Where an event loop runs, there is something in hand, such as an embedded Postgres, and that is
    put away by an exception. The loop's own handler only asks the loop, which would hear of it
    after an answer to a question.
    """

    def __init__(self) -> None:
        self._heard = signal.getsignal(signal.SIGINT)

    def __enter__(self) -> None:
        if self._heard is signal.default_int_handler:  # not of a job in the background
            signal.signal(signal.SIGINT, signal.SIG_DFL)
        elif callable(self._heard):
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self._heard)
