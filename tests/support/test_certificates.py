"""The certificates of the tests: TLS of Python itself judges them."""

import ssl
import stat
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from tests.support.certificates import Authority, Certificate, make_authority


@pytest.fixture(scope="module")
def authority() -> Authority:
    return make_authority()


def _shake_hands(
    directory: Path,
    server: Certificate,
    trusted: Authority,
    *,
    host: str = "localhost",
    client: Certificate | None = None,
) -> dict[str, object]:
    """Shake hands in memory, both sides trusting one authority; return what the server was shown.

    Raises:
        ssl.SSLError: as the side that refused it said.
    """
    trust = trusted.write_truststore(directory / "trust.pem")
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(server.write_keystore(directory / "server.pem"))
    serving.load_verify_locations(trust)
    serving.verify_mode = ssl.CERT_OPTIONAL
    asking = ssl.create_default_context(cafile=str(trust))
    if client is not None:
        asking.load_cert_chain(client.write_keystore(directory / "client.pem"))
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    client_side = asking.wrap_bio(down, up, server_hostname=host)
    server_side = serving.wrap_bio(up, down, server_side=True)
    unfinished = [client_side, server_side]
    while unfinished:
        for side in list(unfinished):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            unfinished.remove(side)
    return dict(server_side.getpeercert() or {})


def test_both_sides_are_known_by_what_an_authority_signed(
    authority: Authority, tmp_path: Path
) -> None:
    client = authority.issue("CN=alice,OU=Sales\\, EU,O=Example", names=())
    shown = _shake_hands(tmp_path, authority.issue(), authority, client=client)
    assert shown["subject"] == (
        (("organizationName", "Example"),),
        (("organizationalUnitName", "Sales, EU"),),
        (("commonName", "alice"),),
    )
    assert client.subject == "CN=alice,OU=Sales\\, EU,O=Example"


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "::1"])
def test_a_server_is_known_by_its_names(authority: Authority, tmp_path: Path, host: str) -> None:
    _shake_hands(tmp_path, authority.issue(), authority, host=host)


def test_what_is_below_an_authority_signs_as_well(authority: Authority, tmp_path: Path) -> None:
    below = authority.intermediate("Below").intermediate("Below that")
    _shake_hands(tmp_path, below.issue(), authority, client=below.issue("CN=alice"))


def test_wrong_servers_are_refused(authority: Authority, tmp_path: Path) -> None:
    wrong = {
        "certificate has expired": authority.expired(),
        "certificate is not yet valid": authority.not_yet_valid(),
        "Hostname mismatch": authority.issue(names=["elsewhere.example"]),
        "unable to get local issuer|certificate signature failure": make_authority().issue(),
    }
    for said, server in wrong.items():
        with pytest.raises(ssl.SSLCertVerificationError, match=said):
            _shake_hands(tmp_path, server, authority)


def test_wrong_clients_are_refused(authority: Authority, tmp_path: Path) -> None:
    for client in (authority.expired("CN=alice"), make_authority("Other").issue("CN=alice")):
        with pytest.raises(ssl.SSLError, match="certificate"):
            _shake_hands(tmp_path, authority.issue(), authority, client=client)


def test_a_key_may_have_a_password_and_is_nobody_elses(
    authority: Authority, tmp_path: Path
) -> None:
    file = authority.issue().write_keystore(tmp_path / "key.pem", password="sesame")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert b"BEGIN ENCRYPTED PRIVATE KEY" in file.read_bytes()
    load_pem_private_key(file.read_bytes(), b"sesame")
    with pytest.raises(ValueError, match="password"):
        load_pem_private_key(file.read_bytes(), b"another")


def test_a_file_is_replaced_whole(authority: Authority, tmp_path: Path) -> None:
    file = authority.issue("CN=first").write_certificate(tmp_path / "certificate.pem")
    with file.open("rb") as read_before:
        second = authority.issue("CN=second")
        second.write_certificate(file)
        assert read_before.read() != second.certificate_pem()
    assert file.read_bytes() == second.certificate_pem()
    assert [entry.name for entry in tmp_path.iterdir()] == ["certificate.pem"]
