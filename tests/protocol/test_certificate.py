"""What is read from a certificate.

The expected subjects are what Java 17 says of the same certificates (X500Principal.getName()):
principals of TLS clients in Apache Kafka.
"""

from datetime import UTC, datetime
from typing import Any, Final

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.name import _ASN1Type as Form
from cryptography.x509.oid import NameOID, ObjectIdentifier
from hypothesis import given
from hypothesis import strategies as st

from protocol.certificate import expires_at, subject_name

KEY: Final = ec.generate_private_key(ec.SECP256R1())
CN: Final = NameOID.COMMON_NAME
OU: Final = NameOID.ORGANIZATIONAL_UNIT_NAME
O: Final = NameOID.ORGANIZATION_NAME  # noqa: E741  # as every subject has it
OWN: Final = ObjectIdentifier("1.2.3.4.5")
SECOND: Final = ObjectIdentifier("2.999.1")
Part = tuple[Any, ...]


def certificate(*names: list[Part], until: datetime = datetime(2030, 1, 2, tzinfo=UTC)) -> bytes:
    """Return a DER certificate; each relative name is a list of (type, value, form or nothing)."""
    subject = x509.Name(
        x509.RelativeDistinguishedName(x509.NameAttribute(*part, _validate=False) for part in parts)
        for parts in names
    )
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(x509.Name([x509.NameAttribute(CN, "Authority")]))
        .public_key(KEY.public_key())
        .serial_number(1)
        .not_valid_before(datetime(2020, 1, 2, tzinfo=UTC))
        .not_valid_after(until)
    )
    return builder.sign(KEY, hashes.SHA256()).public_bytes(Encoding.DER)


@pytest.mark.parametrize(
    ("names", "subject"),
    [
        ([[(O, "Example")], [(OU, "dev")], [(CN, "alice")]], "CN=alice,OU=dev,O=Example"),
        ([[(O, "Example, Inc.")], [(CN, "a")]], "CN=a,O=Example\\, Inc."),
        ([[(CN, 'a,b+c"d\\e<f>g;h=i#j')]], 'CN=a\\,b\\+c\\"d\\\\e\\<f\\>g\\;h\\=i\\#j'),
        ([[(CN, "  two  in  ")]], "CN=\\ \\ two  in\\ \\ "),
        ([[(CN, " ")]], "CN=\\ "),
        ([[(CN, "#abc")]], "CN=\\#abc"),
        ([[(CN, "Zoë Müller 東京 😀")]], "CN=Zoë Müller 東京 😀"),
        ([[(CN, "a\0b")]], "CN=a\\00b"),
        ([[(CN, "a\nb")]], "CN=a\nb"),
        (
            [[(CN, "bob")], [(NameOID.EMAIL_ADDRESS, "bob@example.com", Form.IA5String)]],
            "1.2.840.113549.1.9.1=#160f626f62406578616d706c652e636f6d,CN=bob",
        ),
        (
            [[(O, "E")], [(CN, "alice"), (NameOID.USER_ID, "u1"), (OU, "x")]],
            "OU=x+CN=alice+UID=u1,O=E",
        ),
        (
            [
                [(NameOID.DOMAIN_COMPONENT, "com", Form.IA5String)],
                [(NameOID.DOMAIN_COMPONENT, "example", Form.IA5String)],
                [(NameOID.USER_ID, "u")],
            ],
            "UID=u,DC=example,DC=com",
        ),
        (
            [
                [(NameOID.COUNTRY_NAME, "DE", Form.PrintableString)],
                [(NameOID.STATE_OR_PROVINCE_NAME, "B")],
                [(NameOID.LOCALITY_NAME, "M")],
                [(NameOID.STREET_ADDRESS, "s 1")],
            ],
            "STREET=s 1,L=M,ST=B,C=DE",
        ),
        (
            [
                [(NameOID.SERIAL_NUMBER, "123", Form.PrintableString)],
                [(NameOID.TITLE, "Dr")],
                [(OWN, "v")],
                [(SECOND, "v")],
            ],
            "2.999.1=#0c0176,1.2.3.4.5=#0c0176,2.5.4.12=#0c024472,2.5.4.5=#1303313233",
        ),
        ([[(CN, "P r", Form.PrintableString)]], "CN=P r"),
        ([[(CN, "T61é", Form.T61String)]], "CN=T61é"),
        ([[(CN, "123", Form.NumericString)]], "CN=#1203313233"),
        ([[(CN, "vis", Form.VisibleString)]], "CN=#1a03766973"),
        ([[(CN, "Ab", Form.UniversalString)]], "CN=#1c080000004100000062"),
        ([[(CN, "A,", Form.BMPString)]], "CN=\\00A\\00\\,"),
        ([], ""),
    ],
)
def test_a_subject_is_written_as_java_writes_it(names: list[list[Part]], subject: str) -> None:
    assert subject_name(certificate(*names)) == subject


@pytest.mark.parametrize("year", [2030, 2049, 2050, 2199])  # the form of the year changes in 2050
def test_when_it_expires(year: int) -> None:
    until = datetime(year, 3, 4, 5, 6, 7, tzinfo=UTC)
    assert expires_at(certificate([(CN, "a")], until=until)) == until


def test_a_certificate_that_has_expired_in_the_last_century() -> None:
    der = certificate([(CN, "a")]).replace(b"300102000000Z", b"500102000000Z")
    assert expires_at(der) == datetime(1950, 1, 2, tzinfo=UTC)


WHOLE: Final = certificate([(O, "Example")], [(CN, "alice")])


@given(at=st.integers(0, len(WHOLE) - 1), byte=st.integers(0, 255), end=st.integers(0, len(WHOLE)))
def test_damaged_bytes_are_a_value_error_or_read(at: int, byte: int, end: int) -> None:
    damaged = bytearray(WHOLE)
    damaged[at] = byte
    for data in (bytes(damaged), WHOLE[:end]):
        for read in (subject_name, expires_at):
            try:
                read(data)
            except ValueError:
                continue
