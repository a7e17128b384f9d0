"""Ctrl-C where there is nothing in hand. Nothing is imported here that takes a moment."""

import signal


class EndedByInterrupt:
    """Lets Ctrl-C end the process itself meanwhile.

    Python's own handler raises somewhere, which is a traceback while modules come, and only notes
    the signal: one that comes just before the terminal is read would be heard after the next key.
    """

    def __init__(self) -> None:
        self._heard = signal.getsignal(signal.SIGINT)

    def __enter__(self) -> None:
        if self._heard is signal.default_int_handler:  # not of a job in the background
            signal.signal(signal.SIGINT, signal.SIG_DFL)

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self._heard)
