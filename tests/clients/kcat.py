"""kcat, Debian's command-line client on librdkafka 2.0."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.clients.processes import program, run
from tests.clients.records import ConsumedRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Kcat:
    """The program, pointed at one cluster.

    Attributes:
        bootstrap: HOST:PORT.
        client_id: as it names itself to brokers; "rack=NAME" in it chooses leaders there.
    """

    path: str
    bootstrap: str
    client_id: str = "kcat"

    def produce(
        self,
        topic: str,
        lines: bytes | Path,
        *,
        codec: str = "none",
        headers: Sequence[str] = (),
        empty_is_null: bool = False,
    ) -> None:
        """Send each line, key and value separated by a tab; a line without a tab has a null key.

        Args:
            topic: its partitions get keys by librdkafka's own partitioner (CRC32).
            lines: UTF-8 text, or a file of it.
            codec: none, gzip, snappy, lz4 or zstd.
            headers: of every record, as name=value; without = the value is null.
            empty_is_null: an empty key or value is sent as null.

        Raises:
            ProgramFailed: some line was not acknowledged.
        """
        idempotent = ["-X", "enable.idempotence=true"]  # so that a retry cannot change the order
        options = [word for header in headers for word in ("-H", header)]
        options += ["-Z"] if empty_is_null else []
        command = [*self._command("-P"), "-t", topic, "-K", "\t", "-z", codec]
        run([*command, *idempotent, *options], stdin=lines, timeout_s=300)

    def consume(self, topic: str) -> list[ConsumedRecord]:
        """Read all partitions from the beginning to their ends, without a group.

        Keys, values and header values must be UTF-8: kcat prints them inside JSON.
        """
        command = [*self._command("-C"), "-t", topic, "-o", "beginning"]
        output = run([*command, "-e", "-q", "-J"], timeout_s=300)
        return [record_of_kcat(json.loads(line)) for line in output.stdout.split("\n") if line]

    def _command(self, mode: str) -> list[str]:
        return [self.path, mode, "-b", self.bootstrap, "-X", f"client.id={self.client_id}"]


def kcat(bootstrap: str, *, client_id: str = "kcat") -> Kcat:
    """Return kcat.

    Raises:
        ProgramMissing: it is not installed, and Debian's package cannot be.
    """
    return Kcat(
        path=program("kcat", debian_package="kcat"), bootstrap=bootstrap, client_id=client_id
    )


def record_of_kcat(line: dict[str, Any]) -> ConsumedRecord:
    assert line["tstype"] == "create", line
    flat = line.get("headers", [])  # name, value, name, value, ...
    return ConsumedRecord(
        partition=line["partition"],
        offset=line["offset"],
        timestamp_ms=line["ts"],
        key=_bytes(line["key"]),
        value=_bytes(line["payload"]),
        headers=tuple(
            (name, _bytes(value)) for name, value in zip(flat[::2], flat[1::2], strict=True)
        ),
    )


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()
