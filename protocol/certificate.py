"""What the broker reads from a certificate: its subject, and when it expires.

The subject is as Java writes it: X500Principal.getName(), which is RFC 2253. Apache Kafka's
principals of TLS clients are these texts, so ACLs name them. Read from the DER itself (X.690), for
what Java writes depends on how a value is encoded. The certificates are ours, or such that OpenSSL
has verified; bytes that make no sense raise ValueError all the same.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final, NamedTuple

_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
"""The types that RFC 2253 has a keyword for; others are written by number, their value as hex."""

_SEQUENCE: Final = 0x30
_SET: Final = 0x31
_OBJECT_IDENTIFIER: Final = 0x06
_VERSION: Final = 0xA0
_UTC_TIME: Final = 0x17
_VALIDITY: Final = 3
_SUBJECT: Final = 4
_TEXTS: Final = frozenset({0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E})
"""UTF8String, PrintableString, T61String, IA5String, GeneralString, BMPString."""

_ESCAPED: Final = frozenset(',=+<>#;"\\')
_LONG_FORM: Final = 0x80
_MORE: Final = 0x80


class _Element(NamedTuple):
    """One DER element: its tag, its content, and the whole of it."""

    tag: int
    content: bytes
    whole: bytes


_NOTHING: Final = _Element(0, b"", b"")


def subject_name(certificate: bytes) -> str:
    """Return the subject of a DER certificate, the most specific part first: CN=alice,O=Example.

    Raises:
        ValueError: it is no certificate.
    """
    subject = _only(_fields(certificate)[_SUBJECT], _SEQUENCE)
    names = [_relative_name(_only(one, _SET)) for one in _elements(subject)]
    return ",".join(reversed(names))


def expires_at(certificate: bytes) -> datetime:
    """Return until when a DER certificate is good.

    Raises:
        ValueError: it is no certificate.
    """
    _, until = _elements(_only(_fields(certificate)[_VALIDITY], _SEQUENCE))
    text = until.content.decode("ascii", errors="replace")
    if until.tag == _UTC_TIME:  # two digits of the year: of 1950 to 2049 (RFC 5280, 4.1.2.5.1)
        text = ("20" if text < "50" else "19") + text
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)


def _fields(certificate: bytes) -> list[_Element]:
    """Return what the certificate's authority has signed, without the version."""
    (outer,) = _elements(certificate)
    signed = _only(next(_elements(_only(outer, _SEQUENCE)), _NOTHING), _SEQUENCE)
    fields = [one for one in _elements(signed) if one.tag != _VERSION]
    if len(fields) <= _SUBJECT:
        raise ValueError("a certificate without a subject")
    return fields


def _relative_name(content: bytes) -> str:
    return "+".join(_attribute(_only(one, _SEQUENCE)) for one in _elements(content))


def _attribute(content: bytes) -> str:
    kind, value = _elements(content)
    number = _number(_only(kind, _OBJECT_IDENTIFIER))
    keyword = _KEYWORDS.get(number)
    if keyword is None or value.tag not in _TEXTS:
        return f"{keyword or number}=#{value.whole.hex()}"
    return f"{keyword}={_escape(value.content.decode('utf-8', errors='replace'))}"


def _escape(text: str) -> str:
    inner = text.strip(" ")
    start = len(text) - len(text.lstrip(" "))
    escaped = "".join(f"\\{one}" if one in _ESCAPED else one for one in inner)
    escaped = escaped.replace("\0", "\\00")
    return "\\ " * start + escaped + "\\ " * (len(text) - len(inner) - start)


def _number(content: bytes) -> str:
    """Return an object identifier as its dotted numbers."""
    numbers, value = list[int](), 0
    for byte in content:
        value = (value << 7) | (byte & (_MORE - 1))
        if not byte & _MORE:
            numbers.append(value)
            value = 0
    if not numbers or content[-1] & _MORE:
        raise ValueError("an object identifier that ends too early")
    first = min(numbers[0] // 40, 2)  # both of the first two are in one number
    return ".".join(str(one) for one in (first, numbers[0] - 40 * first, *numbers[1:]))


def _only(element: _Element, tag: int) -> bytes:
    if element.tag != tag:
        raise ValueError(f"tag {element.tag:#x} in place of {tag:#x}")
    return element.content


def _elements(data: bytes) -> Iterator[_Element]:
    """Yield what stands one after the other in `data`."""
    position = 0
    while position < len(data):
        start = position
        if len(data) - position < 2:
            raise ValueError("an element without a length")
        tag, length = data[position], data[position + 1]
        position += 2
        if length & _LONG_FORM:
            size = length & (_LONG_FORM - 1)
            length = int.from_bytes(data[position : position + size])
            position += size
        end = position + length
        if end > len(data):
            raise ValueError("an element that is longer than its place")
        yield _Element(tag, data[position:end], data[start:end])
        position = end
