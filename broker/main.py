"""The entry point of `streamhouse`: what shall not wait for half a second of imports."""

from broker.process_title import hide_command_line


def main() -> None:
    """Run the command line of this process."""
    hide_command_line()
    from broker.serve_command import app  # noqa: PLC0415 (a secret would be seen meanwhile)

    app()


if __name__ == "__main__":
    main()
