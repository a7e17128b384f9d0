"""streamctl user list | set-password | delete: credentials for SASL/SCRAM (KIP-554)."""

import getpass
import secrets
import string
import sys
from pathlib import Path
from typing import Annotated, Final

import typer
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # not marked as re-exports
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from rich.text import Text

from streamctl.arguments import as_bytes
from streamctl.confirmation import confirm_deletion
from streamctl.connection import Connection
from streamctl.errors import Failure, UsageError
from streamctl.options import FormatOption, connected, flag
from streamctl.output import Format, note, print_done, print_json, results, table
from streamctl.requests import REQUEST_TIMEOUT_S, Requests
from streamctl.standard_streams import is_somebody_there
from streamctl.wire import Wire, refused

MECHANISMS: Final = {
    "SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256,
    "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512,
}
LEAST_ITERATIONS: Final = 4096  # Kafka's bounds
MOST_ITERATIONS: Final = 16384
SALT_BYTES: Final = 32
_SALT_LETTERS: Final = string.digits + string.ascii_lowercase
_STDIN: Final = Path("-")
_DESCRIBE_USER_SCRAM_CREDENTIALS: Final = 50

app = typer.Typer(no_args_is_help=True, help="Users that log in with a password (SASL/SCRAM).")

UserArgument = Annotated[str, typer.Argument(metavar="NAME", show_default=False, help="The user.")]
MechanismOption = Annotated[
    list[str] | None,
    typer.Option("--mechanism", help="SCRAM-SHA-256 or SCRAM-SHA-512. Repeatable. Default: both."),
]


@app.command(name="list")
@connected
def list_users(connection: Connection, *, output: FormatOption = Format.TABLE) -> None:
    """List the users that have a password, with its mechanisms.

    Examples:
      streamctl user list
      streamctl user list --format json | jq -r '.[].name'
    """
    users = _credentials(connection)
    if output is Format.JSON:
        print_json([{"name": name, "mechanisms": {**found}} for name, found in users.items()])
        return
    if not users:
        note("no users; make one: streamctl user set-password alice")
        return
    listing = table("USER", "MECHANISM", "ITERATIONS", numbers=("ITERATIONS",))
    for name, found in users.items():
        for mechanism, iterations in found.items():
            listing.add_row(Text(name), mechanism, str(iterations))
    results().print(listing)


@app.command()
@connected
def set_password(
    connection: Connection,
    *,
    name: UserArgument,
    password_file: Annotated[
        Path | None,
        typer.Option(
            "--password-file",
            metavar="FILE",
            help="Its first line is the password; - reads standard input. Default: ask for it.",
        ),
    ] = None,
    mechanism: MechanismOption = None,
    iterations: Annotated[
        int, typer.Option("--iterations", metavar="N", help="How dear each guess is made.")
    ] = LEAST_ITERATIONS,
) -> None:
    """Create a user, or give it another password.

    The password never stands on the command line, where other users of this machine could read
    it. Brokers store what checks it, not the password itself.

    Examples:
      streamctl user set-password alice
      pass kafka/alice | streamctl user set-password alice --password-file -
      streamctl user set-password alice --mechanism SCRAM-SHA-512
    """
    if not LEAST_ITERATIONS <= iterations <= MOST_ITERATIONS:
        raise UsageError(f"--iterations must be from {LEAST_ITERATIONS} to {MOST_ITERATIONS}")
    if not name:
        raise UsageError("a user has a name")
    mechanisms = _mechanisms(mechanism)
    password = _password(name, password_file)
    requests = Requests(connection)
    for one in mechanisms:
        info = ScramCredentialInfo(MECHANISMS[one], iterations)
        _alter(requests, name, UserScramCredentialUpsertion(name, info, password, _salt()))
    print_done(f"user {name} has a password for {' and '.join(mechanisms)}")


@app.command()
@connected
def delete(
    connection: Connection,
    *,
    name: UserArgument,
    mechanism: MechanismOption = None,
    yes: Annotated[bool, flag("--yes", "-y", text="Do not ask.")] = False,
) -> None:
    """Take a user's password away; its ACLs and quotas stay.

    Examples:
      streamctl user delete alice
      streamctl user delete alice --mechanism SCRAM-SHA-256 --yes
    """
    wanted = _mechanisms(mechanism)
    found = _credentials(connection).get(name, {})
    gone = [one for one in wanted if one in found]
    if not gone:
        raise Failure(f"user {name!r} has no such password", fix="streamctl user list shows all")
    confirm_deletion(f"Delete the password of {name}?", yes=yes)
    requests = Requests(connection)
    for one in gone:
        _alter(requests, name, UserScramCredentialDeletion(name, MECHANISMS[one]))
    print_done(f"deleted the password of {name} for {' and '.join(gone)}")


def _salt() -> bytes:
    """Return a random salt that is text, as Java's tools make them: kafka-ts reads no others."""
    return "".join(secrets.choice(_SALT_LETTERS) for _ in range(SALT_BYTES)).encode()


def _mechanisms(given: list[str] | None) -> list[str]:
    wanted = [one.upper() for one in given or MECHANISMS]
    for one in wanted:
        if one not in MECHANISMS:
            raise UsageError(f"--mechanism {one}: use {' or '.join(MECHANISMS)}")
    return list(dict.fromkeys(wanted))


def _password(user: str, file: Path | None) -> bytes:
    """Read the password from where it cannot be seen.

    Raises:
        UsageError: nobody is there to be asked.
        Failure: it is empty, is no text, or cannot be read.
    """
    if file is None:
        if not is_somebody_there():
            raise UsageError(
                "there is no terminal to ask for the password", fix="use --password-file -"
            )
        typed = getpass.getpass(f"Password of {user}: ")
        if typed != getpass.getpass("Once more: "):
            raise Failure("the two passwords differ; nothing was changed")
        password = as_bytes(typed)
    else:
        if file == _STDIN and sys.stdin is None:
            raise Failure("standard input is closed", fix="give --password-file a file")
        try:
            text = sys.stdin.buffer.read() if file == _STDIN else file.read_bytes()
        except OSError as error:
            raise Failure(f"cannot read --password-file {file}: {error.strerror}") from error
        password = text.split(b"\n", 1)[0].removesuffix(b"\r")
    if not password:
        raise Failure("the password is empty; nothing was changed")
    try:
        password.decode()
    except UnicodeDecodeError as error:
        raise Failure("the password is not UTF-8 text; nothing was changed") from error
    return password


def _credentials(connection: Connection) -> dict[str, dict[str, int]]:
    """Return the iterations of each user's mechanisms, sorted by name.

    librdkafka 2.16 crashes when this is refused, so it is not asked.
    """
    names = {mechanism.value: name for name, mechanism in MECHANISMS.items()}
    with Wire.connect(connection) as wire:
        answer = wire.ask(_DESCRIBE_USER_SCRAM_CREDENTIALS, users=None)
    if answer.error_code:
        needs = "describe --cluster"
        raise refused("users", answer.error_code, answer.error_message, needs=needs)
    return {
        one.user: {names[info.mechanism]: info.iterations for info in one.credential_infos}
        for one in sorted(answer.results, key=lambda result: result.user)
    }


def _alter(requests: Requests, name: str, change: UserScramCredentialAlteration) -> None:
    """Make one change: Kafka takes only one of a user in a request."""
    asked = requests.client.alter_user_scram_credentials(
        [change], request_timeout=REQUEST_TIMEOUT_S
    )
    requests.wait(asked[name], f"user {name!r}", needs="alter --cluster")
