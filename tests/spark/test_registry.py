"""A schema registry's answers that are none."""

import socket
from concurrent.futures import ThreadPoolExecutor

import pytest

from spark.sources.registry import Registry, RegistryUnavailable

OK = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"220 mail at your service\r\n\r\n",
        OK + b"Content-Length: 9\r\n\r\n[1",
        OK + b"Content-Length: 4\r\n\r\n<ht>",
    ],
)
def test_an_answer_that_is_none_is_the_registrys(answer: bytes) -> None:
    # Given a registry that breaks off, or what is at its port instead
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as threads:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65_536)
                connection.sendall(answer)

        served = threads.submit(serve)

        # When it is asked, then it is said to be what failed
        with pytest.raises(RegistryUnavailable, match="gave no answer to /subjects/orders-value"):
            Registry(url=f"http://127.0.0.1:{server.getsockname()[1]}").ids_of("orders-value")
        served.result(60)
