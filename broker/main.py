"""The entry point of `streamhouse`: what shall not wait for half a second of imports."""

import gc
import signal
from typing import Final

from broker.process_title import hide_command_line

IMPORTED: Final = 200_000
"""More objects than all modules have: to look for garbage among them takes a tenth of a start."""


def main() -> None:
    """Run the command line of this process."""
    hide_command_line()
    gc.set_threshold(IMPORTED)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # until the event loop has it: no traceback
    from broker.serve_command import app  # noqa: PLC0415 (a secret would be seen meanwhile)

    app()


if __name__ == "__main__":
    main()
