"""The entry point of `streamctl`: what shall not wait for half a second of imports."""

from streamctl.process_title import hide_command_line


def main() -> None:
    """Run the command line of this process, and exit."""
    hide_command_line()
    from streamctl.commands import run  # noqa: PLC0415 (a secret would be seen meanwhile)

    run()
