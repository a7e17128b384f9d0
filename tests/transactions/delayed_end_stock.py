"""Stock clients as transactional producers for the trials of delayed_end.py.

They stop waiting for an answer by themselves, after REQUEST_MS, close the connection and ask again.
"""

import asyncio
import json
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, Self

from confluent_kafka import KafkaException

from tests.clients.java_programs import java_program
from tests.transactions.client import Fenced, MustAbort
from tests.transactions.confluent_client import ConfluentWriter
from tests.transactions.delayed_end_clients import Refused

SOURCE: Final = Path(__file__).with_name("DelayedEndClient.java")
REQUEST_MS: Final = 2_000  # each trial waits for it, and no other request may take so long
DELIVERY_MS: Final = 60_000
SERIALIZER: Final = "org.apache.kafka.common.serialization.StringSerializer"


class LibrdkafkaProducer:
    """confluent-kafka; see Producer. It ends transactions as clients from before KIP-890 do."""

    def __init__(self, bootstrap: str, transactional_id: str, topic: str) -> None:
        self._topic = topic
        self._thread = ThreadPoolExecutor(max_workers=1)
        self._writer = ConfluentWriter(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": DELIVERY_MS,
                "message.timeout.ms": DELIVERY_MS,
                "socket.timeout.ms": REQUEST_MS,
                "reconnect.backoff.ms": 10,
                "retry.backoff.ms": 10,
                "linger.ms": 0,
                "log_level": 0,
            }
        )

    async def start(self) -> None:
        await self._call(self._writer.init)

    async def begin(self) -> None:
        await self._call(self._writer.begin)

    async def send(self, partition: int, value: str) -> None:
        await self._call(self._writer.send, self._topic, [(partition, value)])

    async def end(self, *, committed: bool) -> None:
        await self._call(self._writer.commit if committed else self._writer.abort)

    async def give_up(self) -> None:
        """It does that by itself."""

    async def crash(self) -> None:
        await self._call(self._writer.close)
        self._thread.shutdown()

    async def _call(self, call: Callable[..., None], *arguments: object) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(self._thread, call, *arguments)
        except (Fenced, MustAbort, KafkaException) as refused:
            raise Refused(f"{type(refused).__name__}: {refused}") from refused


class JavaProducers:
    """All Java producers of a test, in one process: DelayedEndClient.java."""

    def __init__(self, process: Process, bootstrap: str, errors: Path) -> None:
        self._process = process
        self._bootstrap = bootstrap
        self._errors = errors
        self._waiting: dict[int, asyncio.Future[str]] = {}
        self._listener = asyncio.create_task(self._listen())
        self._orders = 0

    @classmethod
    @asynccontextmanager
    async def running(cls, bootstrap: str, home: Path) -> AsyncIterator[Self]:
        command = await asyncio.to_thread(java_program, SOURCE)
        errors = home / "java.log"
        with errors.open("w") as log:
            process = await asyncio.create_subprocess_exec(
                *command, stdin=PIPE, stdout=PIPE, stderr=log
            )
        producers = cls(process, bootstrap, errors)
        try:
            yield producers
        finally:
            process.kill()
            await process.wait()
            await producers._listener

    def make(self, transactional_id: str, topic: str) -> "JavaProducer":
        properties = {
            "bootstrap.servers": self._bootstrap,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": DELIVERY_MS,
            "delivery.timeout.ms": DELIVERY_MS,
            "max.block.ms": DELIVERY_MS,
            "request.timeout.ms": REQUEST_MS,
            "retry.backoff.ms": 10,
            "reconnect.backoff.ms": 10,
            "linger.ms": 0,
            "key.serializer": SERIALIZER,
            "value.serializer": SERIALIZER,
        }
        return JavaProducer(self, f"{transactional_id}#{self._orders}", topic, properties)

    async def ask(self, do: str, name: str, **fields: Any) -> None:
        self._orders += 1
        order = self._orders
        answer = self._waiting[order] = asyncio.get_running_loop().create_future()
        assert self._process.stdin is not None
        line = json.dumps({"order": order, "do": do, "name": name, **fields})
        self._process.stdin.write(line.encode() + b"\n")
        try:
            async with asyncio.timeout(2 * DELIVERY_MS / 1000):
                if error := await answer:
                    raise Refused(f"{do}: {error}")
        finally:
            del self._waiting[order]

    async def _listen(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            answer = json.loads(line)
            if waiting := self._waiting.get(answer["order"]):
                waiting.set_result(answer["error"])


class JavaProducer:
    """See Producer."""

    def __init__(
        self, producers: JavaProducers, name: str, topic: str, properties: dict[str, object]
    ) -> None:
        self._producers = producers
        self._name = name
        self._topic = topic
        self._properties = properties

    async def start(self) -> None:
        await self._producers.ask("start", self._name, properties=self._properties)

    async def begin(self) -> None:
        await self._producers.ask("begin", self._name)

    async def send(self, partition: int, value: str) -> None:
        fields = {"topic": self._topic, "partition": partition, "value": value}
        await self._producers.ask("send", self._name, **fields)

    async def end(self, *, committed: bool) -> None:
        await self._producers.ask("commit" if committed else "abort", self._name)

    async def give_up(self) -> None:
        """It does that by itself."""

    async def crash(self) -> None:
        await self._producers.ask("crash", self._name)
