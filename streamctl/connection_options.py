"""What options say about the connection; they stand before the command, after it, or in both."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final

import typer

from streamctl.arguments import not_empty
from streamctl.connection import DEFAULT_BOOTSTRAP, Connection
from streamctl.errors import UsageError
from streamctl.properties import parse_assignments, read_properties

PANEL: Final = "Connection"
BOOTSTRAP_ENVIRONMENT: Final = "STREAMHOUSE_BOOTSTRAP"
_SERVERS: Final = "bootstrap.servers"
_FILES: Final = ("ssl.ca.location", "ssl.certificate.location", "ssl.key.location")
_PROBE: Final = "probe"  # librdkafka looks for the system's authorities

Bootstrap = Annotated[
    str | None,
    typer.Option(
        "--bootstrap",
        parser=not_empty("--bootstrap"),
        metavar="HOST:PORT",
        rich_help_panel=PANEL,
        help=f"Brokers to start from. Default: ${BOOTSTRAP_ENVIRONMENT} or {DEFAULT_BOOTSTRAP}.",
    ),
]
Properties = Annotated[
    list[str] | None,
    typer.Option(
        "-X",
        metavar="KEY=VALUE",
        rich_help_panel=PANEL,
        help="A librdkafka property, such as security.protocol=SASL_SSL. Repeatable.",
    ),
]
ConfigFiles = Annotated[
    list[Path] | None,
    typer.Option(
        "--config",
        metavar="FILE",
        rich_help_panel=PANEL,
        help="A file of client properties, key=value a line. -X and --bootstrap win. Repeatable.",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What was said, before it is known what else is.

    Attributes:
        files: properties of --config.
        options: those of -X, and --bootstrap as the property that it is: they win over those of
            files, wherever each stands.
    """

    files: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(
        cls, *, bootstrap: str | None, properties: list[str] | None, config: list[Path] | None
    ) -> "Given":
        """Return what the options in one place say; there, --bootstrap wins over -X.

        Raises:
            UsageError: -X is not key=value.
            Failure: a --config file cannot be read.
        """
        files: dict[str, str] = {}
        for path in config or ():
            files |= read_properties(path)
        options = parse_assignments("-X", properties or ())
        if bootstrap is not None:
            options[_SERVERS] = bootstrap
        return cls(files=files, options=options)

    def then(self, later: "Given") -> "Given":
        """Return what both say; of two options, or two files, the later counts."""
        return Given(files={**self.files, **later.files}, options={**self.options, **later.options})

    @property
    def properties(self) -> dict[str, str]:
        """All but the brokers."""
        named = {**self.files, **self.options}
        named.pop(_SERVERS, None)
        return named

    @property
    def servers(self) -> str | None:
        """The brokers to start from; None where none are named. Raises UsageError for no word."""
        named = {**self.files, **self.options}.get(_SERVERS)
        return None if named is None else not_empty(_SERVERS)(named)

    def connection(self) -> Connection:
        """Return the connection: by options, then files, then the environment.

        Raises:
            UsageError: no brokers are named, or a file that is named is not there.
        """
        properties = self.properties
        _check_files(properties)
        servers = self.servers or os.environ.get(BOOTSTRAP_ENVIRONMENT) or DEFAULT_BOOTSTRAP
        return Connection(bootstrap=servers, properties=properties)


def _check_files(properties: Mapping[str, str]) -> None:
    """Check that files are there: librdkafka would name a routine of OpenSSL, but not the file."""
    for name in _FILES:
        file = properties.get(name, "")
        if file and file != _PROBE and not Path(file).exists():
            raise UsageError(f"{name}: there is no file {file}", fix="give another with -X")
