"""The entry point of `streamctl`: what shall not wait for half a second of imports."""

import signal


def main() -> None:
    """Run the command line of this process, and exit."""
    heard = signal.getsignal(signal.SIGINT)
    if heard is signal.default_int_handler:  # not of a job in the background, which has none
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # while modules come: no traceback
    from streamctl.process_title import hide_command_line  # noqa: PLC0415 (imports, too)

    hide_command_line()
    from streamctl.commands import run  # noqa: PLC0415 (a secret would be seen meanwhile)

    signal.signal(signal.SIGINT, heard)
    run()
