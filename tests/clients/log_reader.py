"""LogReader.java as a process: compiled once per machine, started once, often asked."""

import base64
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.clients.java_programs import java_classes
from tests.clients.java_tools import JavaTools
from tests.clients.processes import ProgramFailed
from tests.clients.records import ConsumedRecord

SOURCE: Final = Path(__file__).with_name("LogReader.java")
COMPILE_S: Final = 120


@dataclass(frozen=True, slots=True)
class LogReader:
    """The running program."""

    process: "subprocess.Popen[str]"

    def read(
        self, topic: str, isolation_level: str, start: str
    ) -> tuple[list[ConsumedRecord], int]:
        """Read partition 0 to its end, in a consumer of its own.

        Args:
            topic: to be read.
            isolation_level: read_committed or read_uncommitted.
            start: an offset; or @ and a timestamp, for the first record that is not older.

        Returns:
            the records, and where the consumer was then.

        Raises:
            ProgramFailed: the consumer did, or it did not come to the end.
        """
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{topic}\t{isolation_level}\t{start}\n")
        self.process.stdin.flush()
        records: list[ConsumedRecord] = []
        for line in self.process.stdout:
            first, *rest = line.rstrip("\n").split("\t")
            if first == "end":
                return records, int(rest[0])
            if first == "failed":
                raise ProgramFailed(f"{topic} {isolation_level} {start}: {rest[0]}")
            records.append(_record(int(first), *rest))
        raise ProgramFailed(f"it ended with {self.process.wait()}")


@contextmanager
def log_reader(tools: JavaTools) -> Iterator[LogReader]:
    """Run the program for the length of a block."""
    command = [*tools.command("LogReader", classes=java_classes(SOURCE)), tools.bootstrap]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield LogReader(process)
        finally:
            process.kill()


def _record(offset: int, timestamp: str, key: str, value: str) -> ConsumedRecord:
    return ConsumedRecord(
        partition=0,
        offset=offset,
        timestamp_ms=int(timestamp),
        key=_bytes(key),
        value=_bytes(value),
    )


def _bytes(text: str) -> bytes | None:
    return None if text == "-" else base64.b64decode(text)
