"""What a broker is told that nobody else may see: by the environment or --config, never by a flag.

The command line of a process can be read by every user of its machine.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Secrets:
    """Each is empty unless it is set, as STREAMHOUSE_SECRETS__… or under [secrets].

    Attributes:
        key_password: of the private key in ssl.keystore.location.
        bootstrap_user, bootstrap_password: a user that is made at the start, with credentials for
            every SCRAM mechanism, if the cluster has no such user: who else could make the first?
            Who deletes that user takes these settings away, too, or it is back with the next start.
        http_token: what `Authorization: Bearer` has to bring to the HTTP port.
    """

    key_password: str = field(default="", repr=False)
    bootstrap_user: str = ""
    bootstrap_password: str = field(default="", repr=False)
    http_token: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryLogin:
    """Who the broker is to the schema registry (HTTP basic authentication); nobody if empty."""

    user: str = ""
    password: str = field(default="", repr=False)
