"""The certificates and keys of the listeners with TLS, as OpenSSL takes them.

Where they come from is checked here, too, so that a mistake in them is told at the start, and one
made while the broker runs changes nothing.
"""

import ssl
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from broker.network.listeners import SecurityProtocol
from broker.security.security_config import SecurityConfig
from protocol.certificate import expires_at, subject_name

_VERSIONS: Final = {
    "TLSv1.2": ssl.TLSVersion.TLSv1_2,
    "TLSv1.3": ssl.TLSVersion.TLSv1_3,
}
_CLIENT_AUTH: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
_OPTIONS: Final = ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
_USEFUL_CIPHERS: Final = "ALL:!aNULL:!eNULL:!PSK:!SRP"

_PEM: Final = b"-----BEGIN "
_CERTIFICATE: Final = b"-----BEGIN CERTIFICATE-----"
_CERTIFICATE_END: Final = b"-----END CERTIFICATE-----"
_PRIVATE_KEY: Final = b"PRIVATE KEY-----"
_ENCRYPTED: Final = (b"BEGIN ENCRYPTED PRIVATE KEY", b"Proc-Type: 4,ENCRYPTED")


class TlsProblems(ValueError):
    """TLS cannot be set up like this.

    Attributes:
        problems: each names a config and what to do.
    """

    def __init__(self, problems: list[str]) -> None:
        self.problems = problems
        super().__init__("; ".join(problems))


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsContexts:
    """What new connections are secured with.

    Attributes:
        mutual: for listeners SSL, whose clients may need a certificate (ssl.client.auth).
        one_sided: for listeners SASL_SSL, whose clients prove who they are by SASL alone, as in
            Apache Kafka.
        subject, expires: of the broker's certificate.
    """

    mutual: ssl.SSLContext
    one_sided: ssl.SSLContext
    subject: str
    expires: datetime

    def of(self, protocol: SecurityProtocol) -> ssl.SSLContext:
        """Return what a listener of that protocol uses."""
        return self.one_sided if protocol.uses_sasl else self.mutual


def make_contexts(config: SecurityConfig, key_password: str) -> TlsContexts:
    """Read the files and return what connections are made with.

    Raises:
        TlsProblems: it lists every mistake.
    """
    problems, certificate = _keystore_problems(config.keystore, key_password)
    verifies = config.client_auth != "none"
    if verifies:
        problems += _truststore_problems(config.truststore, config.client_auth)
    if not config.tls_versions:
        problems.append("ssl.enabled.protocols: name TLSv1.2 or TLSv1.3 at least")
    problems += _cipher_problems(config.cipher_suites)
    if problems:
        raise TlsProblems(problems)
    mutual = _context(config, key_password)
    if verifies:
        mutual.verify_mode = _CLIENT_AUTH[config.client_auth]
        # whatever is in the truststore is trusted, as in Java; not only what has signed itself
        mutual.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        mutual.load_verify_locations(config.truststore)
    return TlsContexts(
        mutual=mutual,
        one_sided=_context(config, key_password),
        subject=subject_name(certificate),
        expires=expires_at(certificate),
    )


def _context(config: SecurityConfig, key_password: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= _OPTIONS
    versions = [_VERSIONS[name] for name in config.tls_versions]
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    if config.cipher_suites:
        context.set_ciphers(":".join(config.cipher_suites))
    # without the callback OpenSSL would ask whoever sits at the terminal
    context.load_cert_chain(config.keystore, password=lambda: key_password)
    return context


def _keystore_problems(file: str, key_password: str) -> tuple[list[str], bytes]:
    """Return what is wrong with the keystore, and the certificate in it."""
    name = "ssl.keystore.location"
    if not file:
        return [f"{name}: a listener with TLS needs one: a PEM file with key and certificate"], b""
    problems, content = _read(name, file)
    if problems:
        return problems, b""
    missing = [
        what
        for what, mark in (("private key", _PRIVATE_KEY), ("certificate", _CERTIFICATE))
        if mark not in content
    ]
    if missing:
        what = " and no ".join(missing)
        return [f"{name}: {file} has no {what}; put both in one PEM file"], b""
    if not key_password and any(mark in content for mark in _ENCRYPTED):
        advice = "set STREAMHOUSE_SECRETS__KEY_PASSWORD"
        return [f"{name}: the private key in {file} is encrypted; {advice}"], b""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(file, password=lambda: key_password)
        certificate = _first_certificate(content)
        subject_name(certificate), expires_at(certificate)
    except (ssl.SSLError, ValueError) as error:
        return [f"{name}: {file}: {_key_problem(error, content)}"], b""
    return [], certificate


def _key_problem(error: ssl.SSLError | ValueError, content: bytes) -> str:
    reason = error.reason if isinstance(error, ssl.SSLError) else ""
    if reason == "KEY_VALUES_MISMATCH":
        return "the private key is not that of the first certificate; put the broker's own first"
    if any(mark in content for mark in _ENCRYPTED):
        return "the private key cannot be read; check STREAMHOUSE_SECRETS__KEY_PASSWORD"
    return f"OpenSSL cannot read key and certificate ({reason or 'damaged'}); write it anew"


def _first_certificate(content: bytes) -> bytes:
    start = content.index(_CERTIFICATE)
    end = content.index(_CERTIFICATE_END, start) + len(_CERTIFICATE_END)
    return ssl.PEM_cert_to_DER_cert(content[start:end].decode("ascii"))


def _truststore_problems(file: str, client_auth: str) -> list[str]:
    name = "ssl.truststore.location"
    if not file:
        advice = "a PEM file with the authorities of clients' certificates"
        return [f"{name}: ssl.client.auth={client_auth} needs one: {advice}"]
    problems, content = _read(name, file)
    if problems:
        return problems
    if _CERTIFICATE not in content:
        return [f"{name}: {file} has no certificate"]
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_verify_locations(file)
    except ssl.SSLError as error:
        return [f"{name}: {file}: OpenSSL cannot read it ({error.reason or 'damaged'})"]
    return []


def _read(name: str, file: str) -> tuple[list[str], bytes]:
    try:
        content = Path(file).read_bytes()
    except OSError as error:
        return [f"{name}: cannot read {file}: {error.strerror}"], b""
    if _PEM not in content:
        return [f"{name}: {file} is not PEM; convert it with openssl or keytool"], b""
    return [], content


def _cipher_problems(suites: tuple[str, ...]) -> list[str]:
    if not suites:
        return []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers(_USEFUL_CIPHERS)
    known = {cipher["name"] for cipher in context.get_ciphers()}
    return [
        f"ssl.cipher.suites: {suite!r} is none of OpenSSL's names;"
        " use such as ECDHE-RSA-AES128-GCM-SHA256"
        for suite in suites
        if suite not in known
    ]
