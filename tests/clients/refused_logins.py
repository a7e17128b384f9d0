"""Logins that must be refused, each wrong in one thing; stock clients try all that they can."""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from tests.clients.logins import PASSWORDS, Login
from tests.clients.secured import Secured
from tests.support.certificates import make_authority

AUTHENTICATION: Final = "authentication"
"""SASL said no: SASL_AUTHENTICATION_FAILED, ILLEGAL_SASL_STATE, UNSUPPORTED_SASL_MECHANISM."""

TLS: Final = "tls"
"""There is no connection, for one side does not take the other's certificate."""

STRANGER: Final = "stranger"
"""There is a connection to the wrong kind of listener, which ends."""

CONCURRENT: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedLogin:
    """Attributes:
    name: what is wrong.
    kind: AUTHENTICATION, TLS or STRANGER.
    """

    name: str
    kind: str
    login: Login


def refused_logins(secured: Secured, strict: Secured) -> list[RefusedLogin]:
    """Return them all.

    Args:
        secured: takes every mechanism, and asks for no certificate.
        strict: takes PLAIN and SCRAM-SHA-512 only, and wants a certificate where there is no SASL.
    """
    user = secured.new_user()
    secured.keystore(user)
    strict.set_password(user, secured.login(user, "SASL_SSL", "PLAIN").password)
    return [
        *_wrong_passwords(secured, user),
        *_unsupported_mechanisms(strict, user),
        *_wrong_tokens(secured, user),
        *_wrong_servers(secured, user),
        *_wrong_certificates(secured, strict, user),
        *_wrong_protocols(secured, user),
    ]


def outcomes(
    logins: Iterable[RefusedLogin], attempt: Callable[[Login], str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the kind by name, and what each attempt came to; they are made at the same time."""
    every = list(logins)
    with ThreadPoolExecutor(CONCURRENT) as pool:
        came_to = list(pool.map(lambda one: attempt(one.login), every))
    return (
        {one.name: one.kind for one in every},
        {one.name: outcome for one, outcome in zip(every, came_to, strict=True)},
    )


def check_refused(
    logins: Iterable[RefusedLogin],
    attempt: Callable[[Login], str],
    expected: Mapping[str, frozenset[str]],
) -> dict[str, str]:
    """Check that every login is refused as is expected of its kind; return how, by name."""
    kinds, came_to = outcomes(logins, attempt)
    surprises = {
        name: f"{kind}: {came_to[name]}"
        for name, kind in kinds.items()
        if came_to[name] not in expected[kind]
    }
    assert not surprises, surprises
    return came_to


def _wrong_passwords(secured: Secured, user: str) -> Iterable[RefusedLogin]:
    for protocol in ("SASL_PLAINTEXT", "SASL_SSL"):
        for mechanism in PASSWORDS:
            login = secured.login(user, protocol, mechanism)
            wrong = {
                "wrong password": login.but(password="wrong"),
                "unknown user": login.but(user="nobody"),
                "another's password": login.but(user="admin"),
            }
            for name, one in wrong.items():
                yield RefusedLogin(
                    name=f"{protocol} {mechanism} {name}", kind=AUTHENTICATION, login=one
                )


def _unsupported_mechanisms(strict: Secured, user: str) -> Iterable[RefusedLogin]:
    for mechanism in ("SCRAM-SHA-256", "OAUTHBEARER"):
        login = strict.login(user, "SASL_SSL", mechanism)
        yield RefusedLogin(name=f"{mechanism} is not enabled", kind=AUTHENTICATION, login=login)


def _wrong_tokens(secured: Secured, user: str) -> Iterable[RefusedLogin]:
    login = secured.login(user, "SASL_SSL", "OAUTHBEARER")
    for name, token in secured.issuer.refused_tokens(user).items():
        yield RefusedLogin(name=f"token: {name}", kind=AUTHENTICATION, login=login.but(token=token))


def _wrong_servers(secured: Secured, user: str) -> Iterable[RefusedLogin]:
    """The client refuses: by these it would talk to somebody else."""
    elsewhere = make_authority().write_truststore(secured.home / "elsewhere.pem")
    for login in (secured.login(user, "SSL"), secured.login(user, "SASL_SSL", "SCRAM-SHA-256")):
        wrong_name = login.but(bootstrap=login.bootstrap.replace("localhost", "127.0.0.1"))
        yield RefusedLogin(
            name=f"{login.protocol} wrong authority", kind=TLS, login=login.but(trust=elsewhere)
        )
        yield RefusedLogin(name=f"{login.protocol} wrong host", kind=TLS, login=wrong_name)


def _wrong_certificates(secured: Secured, strict: Secured, user: str) -> Iterable[RefusedLogin]:
    subject = f"CN={user},OU=Clients,O=Example"
    for cluster, needed in ((secured, "requested"), (strict, "required")):
        login, home = cluster.login(user, "SSL"), cluster.home
        certificates = {
            "expired": cluster.authority.expired(subject),
            "not yet valid": cluster.authority.not_yet_valid(subject),
            "another authority's": make_authority().issue(subject),
        }
        for at, (name, certificate) in enumerate(certificates.items()):
            keystore = certificate.write_keystore(home / f"wrong-{at}.pem")
            wrong = login.but(keystore=keystore)
            yield RefusedLogin(name=f"certificate {needed}: {name}", kind=TLS, login=wrong)
    without = strict.login(user, "SSL").but(keystore=None)
    yield RefusedLogin(name="certificate required: none", kind=TLS, login=without)


def _wrong_protocols(secured: Secured, user: str) -> Iterable[RefusedLogin]:
    scram = secured.login(user, "SASL_SSL", "SCRAM-SHA-512")
    for protocol in ("SASL_PLAINTEXT", "SASL_SSL"):
        address = secured.addresses[protocol]
        plain = secured.login(user, "PLAINTEXT").but(bootstrap=address)
        yield RefusedLogin(name=f"PLAINTEXT at {protocol}", kind=STRANGER, login=plain)
    yield RefusedLogin(
        name="SASL_SSL at SASL_PLAINTEXT",
        kind=STRANGER,
        login=scram.but(bootstrap=secured.addresses["SASL_PLAINTEXT"]),
    )
