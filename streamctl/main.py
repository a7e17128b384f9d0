"""The entry point of `streamctl`: what shall not wait for half a second of imports."""

from streamctl.interrupts import EndedByInterrupt


def main() -> None:
    """Run the command line of this process, and exit."""
    with EndedByInterrupt():
        from streamctl.process_title import hide_command_line  # noqa: PLC0415 (imports, too)

        hide_command_line()
        from streamctl.commands import run  # noqa: PLC0415 (a secret would be seen meanwhile)
    run()
