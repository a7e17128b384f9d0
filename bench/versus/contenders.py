"""Who is compared: Apache Kafka and this broker, each kind started empty in a folder of its own."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

import psutil

from bench.versus.delaying_proxy import delaying_proxy
from bench.versus.our_broker import OurBroker
from bench.versus.running import Running
from tests.oracle.apache_kafka import ApacheKafka, running_kafka
from tests.support.s3_server import S3Server

KAFKA: Final = "kafka"
KAFKA_FLUSH: Final = "kafka-flush"
OURS: Final = "ours"
OURS_S3: Final = "ours-s3"
OURS_S3_50: Final = "ours-s3-50"
OURS_2: Final = "ours-2"

S3_DELAY_MS: Final = 50
BUCKET: Final = "versus"
KAFKA_SCRIPTS_JVM: Final = (  # kafka-server-start.sh, but for its heap of 1 GiB
    "-Xmx2g",
    "-Xms2g",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
)


class Contender(Protocol):
    """A kind of broker with its settings.

    Attributes:
        name: unique.
        what: it is, for people.
    """

    @property
    def name(self) -> str: ...

    @property
    def what(self) -> str: ...

    def running(self, home: Path) -> AbstractContextManager[Running]:
        """Run it for the length of a block; `home` is an empty directory, for all that it keeps.

        Raises:
            KafkaFailed, BrokerFailed: it did not start.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Kafka:
    """Apache Kafka: one node, broker and controller, a heap of 2 GiB."""

    name: str
    what: str
    settings: Mapping[str, str] = field(default_factory=dict)

    @contextmanager
    def running(self, home: Path) -> Iterator[Running]:
        with running_kafka(
            home, self.settings, sizing=KAFKA_SCRIPTS_JVM, own_session=True
        ) as kafka:
            yield Running(
                name=self.name,
                bootstrap=kafka.bootstrap,
                home=home,
                broker=_KafkaBroker(kafka),
                began_s=kafka.began_s,
            )


@dataclass(frozen=True, slots=True)
class _KafkaBroker:
    kafka: ApacheKafka

    def roots(self) -> Mapping[str, int]:
        return {"broker": self.kafka.process.pid}

    def wait_for_upkeep(self) -> None:
        """There is nothing to wait for: threads of the broker do it."""

    def kill(self) -> None:
        self.kafka.kill()

    def start(self) -> None:
        self.kafka.start()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ours:
    """This broker with an embedded Postgres, and its upkeep, as `streamhouse serve` starts it.

    Attributes:
        s3: on an S3 server of this machine; else on a directory.
        delay_ms: that each request of that server takes at least.
    """

    name: str
    what: str
    workers: int = 1
    s3: bool = False
    delay_ms: int = 0

    @contextmanager
    def running(self, home: Path) -> Iterator[Running]:
        with ExitStack() as stack:
            store = stack.enter_context(_s3(home, self.delay_ms)) if self.s3 else Store()
            broker = OurBroker(
                home / "data",
                arguments=store.arguments,
                environment=store.environment,
                workers=self.workers,
                roots=store.roots,
            )
            stack.callback(broker.stop)
            yield Running(
                name=self.name,
                bootstrap=broker.bootstrap,
                home=home,
                broker=broker,
                began_s=broker.began_s,
                http=broker.http,
                postgres=broker.postgres,
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """What a broker is told of its object store; nothing is needed for a directory."""

    arguments: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    roots: Mapping[str, int] = field(default_factory=dict)


@contextmanager
def _s3(home: Path, delay_ms: int) -> Iterator[Store]:
    (home / "s3").mkdir()
    before = set(psutil.Process().children())
    with ExitStack() as stack:
        server = stack.enter_context(S3Server.start(home / "s3"))
        pids = [process.pid for process in set(psutil.Process().children()) - before]
        server.create_bucket(BUCKET)
        url = server.store_url(BUCKET)
        if delay_ms:
            at = f"127.0.0.1:{server.port}"
            proxy = stack.enter_context(delaying_proxy(at, delay_ms=delay_ms))
            url = url.replace(at, proxy.address)
        yield Store(
            arguments=("--store", url),
            environment=server.environment(),
            roots={"store": pids[0]} if pids else {},  # none of ours, if it is a container
        )


CONTENDERS: Final[Mapping[str, Contender]] = {
    contender.name: contender
    for contender in (
        Kafka(name=KAFKA, what="Apache Kafka 4.3.1, heap of 2 GiB"),
        Kafka(
            name=KAFKA_FLUSH,
            what="the same with an fsync of each batch (log.flush.interval.messages=1)",
            settings={"log.flush.interval.messages": "1"},
        ),
        Ours(name=OURS, what="this broker, embedded Postgres, a directory as store"),
        Ours(name=OURS_S3, what="this broker, an S3 server on this machine", s3=True),
        Ours(
            name=OURS_S3_50,
            what=f"the same, each request taking {S3_DELAY_MS} ms at least",
            s3=True,
            delay_ms=S3_DELAY_MS,
        ),
        Ours(name=OURS_2, what="this broker, --workers 2", workers=2),
    )
}
"""In the order of a report's columns."""
