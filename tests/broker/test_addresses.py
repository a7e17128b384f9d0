"""Where `streamhouse serve` listens, and what it tells clients of that."""

import errno
import socket
from pathlib import Path
from typing import Any

import pytest

from broker.config import InvalidSettings, read_settings
from broker.network.addresses import Address, parse_address
from broker.network.free_addresses import AddressNotUsable, check_addresses
from tests.support.broker import running_broker
from tests.support.ports import free_port, free_ports
from tests.support.serve_command import serve
from tests.support.wire import WireClient, request_entities


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:9092", Address("127.0.0.1", 9092)),
        ("PLAINTEXT://broker.example:9092", Address("broker.example", 9092)),
        ("[::1]:9092", Address("::1", 9092)),
        ("0.0.0.0:0", Address("0.0.0.0", 0)),
    ],
)
def test_addresses(text: str, address: Address) -> None:
    assert parse_address(text, listener=True) == address


@pytest.mark.parametrize(
    "text",
    [
        *("9092", "host", "host:", ":9092", "host:port", "host:65536", "ftp://h:1"),
        *("a..b:1", "SSL://.a:1", f"{'a' * 64}:1"),
    ],
)
def test_what_is_no_address_says_what_is(text: str) -> None:
    with pytest.raises(ValueError, match="use HOST:PORT"):
        parse_address(text, listener=True)


def test_an_address_in_use_is_said(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = serve(
            *("--listen", f"127.0.0.1:{port}", "--http", "127.0.0.1:0", "--data", str(tmp_path))
        )
    assert result.returncode == 1
    assert "in use" in result.stderr
    assert "Traceback" not in result.stderr


def test_an_address_in_use_is_said_before_a_database_is_made(tmp_path: Path) -> None:
    first = free_ports(4)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", first + 1))
        taken.listen()
        for arguments in (
            ("--listen", "127.0.0.1:0", "--http", f"127.0.0.1:{first + 1}"),
            *(
                ("--listen", f"127.0.0.1:{one}", "--http", f"127.0.0.1:{other}", "--workers", "2")
                for one, other in ((first, first + 2), (first + 2, first))
            ),
        ):
            result = serve(*arguments, "--data", str(tmp_path / "data"))
            assert result.returncode == 1
            assert f"cannot listen on 127.0.0.1:{first + 1}: Address already" in result.stderr
            assert "--http" in result.stderr
    assert not (tmp_path / "data").exists()


def without(monkeypatch: pytest.MonkeyPatch, *families: socket.AddressFamily) -> None:
    """Let this machine's kernel have no sockets of these families, as if built without them."""
    make = socket.socket

    def refuse(family: int = -1, *arguments: int, **options: Any) -> socket.socket:
        if family in families:
            raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")
        return make(family, *arguments, **options)

    monkeypatch.setattr(socket, "socket", refuse)


def test_a_name_may_stand_for_addresses_that_the_kernel_does_not_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given a name of an IPv4 and an IPv6 address
    port = free_port()
    both = [
        (family, socket.SOCK_STREAM, 6, "", (host, port))
        for family, host in ((socket.AF_INET6, "::1"), (socket.AF_INET, "127.0.0.1"))
    ]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: both)
    address = f"localhost:{port}"
    settings, _ = read_settings({"listen": [address], "http": address}, None)

    # When the kernel has no IPv6, then the other address is enough; without any it is refused
    without(monkeypatch, socket.AF_INET6)
    check_addresses(settings)
    without(monkeypatch, socket.AF_INET)
    with pytest.raises(AddressNotUsable, match="not supported by protocol"):
        check_addresses(settings)


def test_a_host_that_nobody_knows_is_named(tmp_path: Path) -> None:
    result = serve("--listen", "nosuch.invalid:19093", "--data", str(tmp_path / "data"))
    assert result.returncode == 1
    assert "cannot listen on nosuch.invalid:19093" in result.stderr
    assert "--listen" in result.stderr
    assert "--data" not in result.stderr


@pytest.mark.parametrize("listen", ["0.0.0.0:9092", "PLAINTEXT://0.0.0.0:9092", "[::]:9092"])
def test_an_address_that_nobody_can_connect_to_needs_an_advertised_one(listen: str) -> None:
    with pytest.raises(InvalidSettings, match="--advertise"):
        read_settings({"listen": (listen,)}, None)
    read_settings({"listen": (listen,), "advertise": ("broker.example:9092",)}, None)


async def test_each_listener_tells_its_own_advertised_address(tmp_path: Path) -> None:
    # Given two listeners, one of them advertised under another name
    inside, outside = free_port(), free_port()
    arguments = (
        *("--listen", f"127.0.0.1:{outside}"),
        *("--advertise", "127.0.0.1:0", "--advertise", "outside.example:9093"),
    )
    with running_broker(tmp_path, *arguments, listen=f"127.0.0.1:{inside}"):
        for port, told in ((inside, ("127.0.0.1", 0)), (outside, ("outside.example", 9093))):
            # When a client of either asks for metadata, twice
            async with await WireClient.connect(f"127.0.0.1:{port}") as client:
                for _ in range(2):
                    request = request_entities(3, 1).MetadataRequest(topics=())
                    (node,) = (await client.ask(request)).brokers

                    # Then it is told its listener's address
                    assert (node.host, node.port) == told
