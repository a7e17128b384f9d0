"""What is inside the bytes of some fields: formats of their own, which the broker looks into."""

import base64
import struct
from collections.abc import Callable
from random import Random
from typing import Final

from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

from protocol.compression import Codec, compress
from tests.fuzz.batches import some_batch
from tests.fuzz.mutations import corrupt
from tests.fuzz.values import pick, some_bytes, some_text

CLIENT_NONCE: Final = b"fyko+d2lbbFgONRv9qkxdawL"
SERVER_NONCE: Final = b"3rfcNHYJY1ZVvWVs7j"

_PATTERNS: Final = tuple(
    pattern.encode()
    for pattern in (
        *("", "fuzz-.*", ".*", "(a+)+$", "[", "(?P<n", "(?=x)", "a{1000}{1000}", "x*" * 500),
        *("((((((((((a?){20}){20}){20})", "\\p{Greek}", "(" * 3000, "a|" * 2000, "\\", "(?i)A\\C"),
    )
)


def _text16(random: Random) -> bytes:
    text = some_text(random)
    return struct.pack(">h", len(text)) + text


def _partitions(random: Random) -> bytes:
    topics = [
        _text16(random) + struct.pack(">i3i", 3, *range(3)) for _ in range(int(random.random() * 3))
    ]
    return struct.pack(">i", len(topics)) + b"".join(topics)


def _blob(random: Random) -> bytes:
    data = some_bytes(random)
    return struct.pack(">i", len(data)) + data


def subscription(random: Random) -> bytes:
    """ConsumerProtocolSubscription of any version, whole or damaged."""
    version = int(random.random() * 5) - (random.random() < 0.05)
    names = [_text16(random) for _ in range(int(random.random() * 4))]
    data = struct.pack(">hi", version, len(names)) + b"".join(names) + _blob(random)
    data += _partitions(random) + struct.pack(">i", 5) + _text16(random)
    return corrupt(random, data) if random.random() < 0.5 else data


def assignment(random: Random) -> bytes:
    """ConsumerProtocolAssignment, whole or damaged."""
    data = struct.pack(">h", int(random.random() * 5)) + _partitions(random) + _blob(random)
    return corrupt(random, data) if random.random() < 0.5 else data


def _scram_first(random: Random) -> bytes:
    flag = pick(random, (b"n", b"n", b"n", b"y", b"p=tls-server-end-point", b"", b"q"))
    name = pick(random, (b"alice", b"a=2Cb", b"a=3Db", b"a=", b"a,b", b"", b"\xff", b"x" * 5000))
    nonce = pick(random, (CLIENT_NONCE, CLIENT_NONCE, b"", b"a,b", b"\0", b"n" * 9000))
    return flag + b",," + b"n=" + name + b",r=" + nonce


def _scram_final(random: Random) -> bytes:
    binding = pick(random, (b"biws", b"eSws", b"", b"!!!", b"bg=="))
    nonce = pick(random, (CLIENT_NONCE + SERVER_NONCE, CLIENT_NONCE, SERVER_NONCE, b"", b"a"))
    size = pick(random, (32, 64, 0, int(random.random() * 70)))
    extension = pick(random, (b"", b"", b",x=1", b",m=1", b",x"))
    proof = base64.b64encode(random.randbytes(size))
    return b"c=" + binding + b",r=" + nonce + extension + b",p=" + proof


def _plain(random: Random) -> bytes:
    return b"\0".join(some_text(random) for _ in range(1 + int(random.random() * 4)))


_CLAIMS: Final = (
    *(b'{"sub":"a","exp":1e400}', b'{"sub":1,"exp":2e9}', b"null", b'{"exp":"x"}', b"[", b""),
    *(b'{"sub":"a","exp":2000000000}', b'{"sub":"a","exp":NaN}', b'{"sub":"a","exp":-1}'),
    *(b'{"sub":"\\ud800","exp":2e9}', b'{"sub":"a","exp":2e9,"scope":[1]}', b"{" * 3000),
    *(b'{"exp":%b}' % (b"9" * 5000), b'{"sub":"a","exp":2e9,"nbf":true}', b'{"aud":[[[]]]}'),
    *(b'{"sub":"a","exp":2e9,"iat":"1"}', b'{"sub":"a\\u0000","exp":2e9}', b"\xff\xfe{}"),
)


def _token(random: Random) -> bytes:
    def part(text: bytes) -> bytes:
        return base64.urlsafe_b64encode(text).rstrip(b"=")

    head = pick(random, (b'{"alg":"none"}', b'{"alg":"RS256","kid":"../k"}', b"{", b"[[" * 3000))
    token = b".".join((part(head), part(pick(random, _CLAIMS)), part(random.randbytes(32))))
    return b"n,,\x01auth=Bearer " + token + pick(random, (b"\x01\x01", b"\x01", b""))


def sasl_message(random: Random) -> bytes:
    """What a client of any mechanism may say at any time, whole or damaged."""
    data = pick(random, (_plain, _scram_first, _scram_final, _token, some_bytes))(random)
    return corrupt(random, data) if random.random() < 0.4 else data


def telemetry(random: Random) -> bytes:
    """OTLP metrics, compressed or not; the request's codec fits in one case of some."""
    message = MetricsData()
    for _ in range(int(random.random() * 3)):
        metric = message.resource_metrics.add().scope_metrics.add().metrics.add(name="m.x")
        points = pick(random, (metric.gauge.data_points, metric.sum.data_points))
        for _ in range(int(random.random() * 4)):
            points.add(as_double=random.random())
    data = message.SerializeToString()
    if random.random() < 0.4:
        data = corrupt(random, data)
    codec = Codec(int(random.random() * 5))
    data = compress(codec, data)
    return corrupt(random, data) if random.random() < 0.2 else data


def _pattern(random: Random) -> bytes:
    return pick(random, _PATTERNS)


PAYLOADS: Final[dict[str, Callable[[Random], bytes]]] = {
    "PartitionProduceData.records": some_batch,
    "JoinGroupRequestProtocol.metadata": subscription,
    "SyncGroupRequestAssignment.assignment": assignment,
    "SaslAuthenticateRequest.auth_bytes": sasl_message,
    "PushTelemetryRequest.metrics": telemetry,
    "ConsumerGroupHeartbeatRequest.subscribed_topic_regex": _pattern,
}
"""Makers by the name of a field's class and of the field."""
