"""The Java client, in one process of its own: TransactionsClient.java."""

import itertools
import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import Any, Final

from tests.clients.java_programs import java_program
from tests.transactions.client import (
    CALL_S,
    FETCH_WAIT_MS,
    TIMEOUT_MS,
    Fenced,
    Member,
    MustAbort,
    Read,
    TooLate,
)

SOURCE: Final = Path(__file__).with_name("TransactionsClient.java")
SERIALIZERS: Final = "org.apache.kafka.common.serialization"
FENCED: Final = ("ProducerFencedException", "InvalidProducerEpochException")
ABORTABLE: Final = ("CommitFailedException", "TransactionAbortableException")
TOO_LATE: Final = "InvalidTxnStateException"


class JavaFailed(AssertionError):
    """The Java client raised something that is neither of those that tests expect."""


class Process:
    """The process; one order after the other."""

    def __init__(self, errors: Path) -> None:
        with errors.open("w") as log:
            self._process = subprocess.Popen(
                java_program(SOURCE),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self._errors = errors
        self._answers: Queue[str] = Queue()
        self._thread = Thread(target=self._listen, name="java")
        self._thread.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put(line)

    def ask(self, operation: str, name: str, **fields: Any) -> Any:
        assert self._process.stdin is not None
        order = json.dumps({"do": operation, "name": name, **fields})
        self._process.stdin.write(order + "\n")
        self._process.stdin.flush()
        try:
            answer = json.loads(self._answers.get(timeout=2 * CALL_S))
        except Empty:
            raise JavaFailed(f"no answer to {order}\n{self._errors.read_text()}") from None
        match answer:
            case {"ok": result}:
                return result
            case {"error": error, "message": message}:
                raise _named(error, message)
            case _:
                raise JavaFailed(answer)

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        self._thread.join()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


def _named(error: str, message: str) -> Exception:
    if error in FENCED:
        return Fenced(f"{error}: {message}")
    if error in ABORTABLE:
        return MustAbort(f"{error}: {message}")
    if error == TOO_LATE:
        return TooLate(f"{error}: {message}")
    return JavaFailed(f"{error}: {message}")


class JavaMember:
    """A consumer of a group."""

    def __init__(self, process: Process, name: str) -> None:
        self.name = name
        self._process = process

    def leave(self) -> None:
        self._process.ask("leave", self.name)


class JavaWriter:
    """A transactional producer."""

    def __init__(self, process: Process, name: str) -> None:
        self._process = process
        self._name = name

    def init(self) -> None:
        self._process.ask("init", self._name)

    def begin(self) -> None:
        self._process.ask("begin", self._name)

    def send(self, topic: str, records: Sequence[tuple[int, str]]) -> None:
        self._process.ask("send", self._name, topic=topic, records=records)

    def send_offsets(self, topic: str, offsets: Mapping[int, int], member: Member) -> None:
        assert isinstance(member, JavaMember)
        pairs = list(offsets.items())
        self._process.ask("offsets", self._name, topic=topic, offsets=pairs, member=member.name)

    def commit(self) -> None:
        self._process.ask("commit", self._name)

    def abort(self) -> None:
        self._process.ask("abort", self._name)

    def close(self) -> None:
        self._process.ask("close", self._name)


class JavaLibrary:
    """kafka-clients of the stock tools."""

    name = "java"
    tells_group_metadata = True

    def __init__(self, bootstrap: str, home: Path) -> None:
        self._bootstrap = bootstrap
        self._process = Process(home / "java.log")
        self._names = (f"client-{number}" for number in itertools.count())

    def writer(self, transactional_id: str, *, timeout_ms: int = TIMEOUT_MS) -> JavaWriter:
        name = next(self._names)
        properties = {
            "bootstrap.servers": self._bootstrap,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": timeout_ms,
            "max.block.ms": int(CALL_S * 1000),
            "key.serializer": f"{SERIALIZERS}.ByteArraySerializer",
            "value.serializer": f"{SERIALIZERS}.StringSerializer",
        }
        self._process.ask("open", name, properties=properties)
        return JavaWriter(self._process, name)

    def member(self, group: str, topic: str, record_count: int) -> JavaMember:
        name = next(self._names)
        properties = self._consumer(committed=True) | {
            "group.id": group,
            "auto.offset.reset": "earliest",
        }
        self._process.ask("join", name, properties=properties, topic=topic, count=record_count)
        return JavaMember(self._process, name)

    def read(self, topic: str, *, committed: bool = True) -> list[Read]:
        properties = self._consumer(committed=committed)
        found = self._process.ask("read", next(self._names), properties=properties, topic=topic)
        return [Read(*one) for one in found]

    def _consumer(self, *, committed: bool) -> dict[str, str]:
        return {
            "bootstrap.servers": self._bootstrap,
            "isolation.level": "read_committed" if committed else "read_uncommitted",
            "enable.auto.commit": "false",
            "fetch.max.wait.ms": str(FETCH_WAIT_MS),
            "key.deserializer": f"{SERIALIZERS}.ByteArrayDeserializer",
            "value.deserializer": f"{SERIALIZERS}.StringDeserializer",
        }

    def end(self) -> None:
        self._process.end()
