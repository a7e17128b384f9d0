"""Produce and consume: how many MB a second, and what one GB costs in CPU.

The base is 1 KiB a record, acks=all, no compression, 6 partitions, one kcat (librdkafka) with its
defaults, among them a linger of 5 ms; a case's name tells how it differs. Payloads are events of
JSON (`bench/versus/payload.py`). MB and GB are those of the records' values, uncompressed.

consume, from memory: just written, and little enough for our cache of recent commits. From a warm
store: after kill -9 and a start, the second pass. From a cold one: after the same the first pass,
when the files are in nobody's page cache.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from bench.results import Figures
from bench.versus.contenders import KAFKA, OURS, OURS_S3, OURS_S3_50
from bench.versus.loads import (
    Producing,
    consume,
    consume_by_java,
    make_cold,
    prime,
    produce,
    produce_by_java,
    restart,
)
from bench.versus.part import Case, Scale
from bench.versus.payload import MB, payload
from bench.versus.running import Running

PART: Final = "throughput"
BOTH: Final = (KAFKA, OURS)
SIZE_MB: Final = {100: 256, 1_024: 1_024, 10_240: 1_024}
"""Of one producer's case, by the size of a record: about two seconds. In one, a client's queue and
memory still grow, and what is written is hardly begun to be flushed or built."""
QUICK_MB: Final = 24
IN_MEMORY_MB: Final = 96
PASSES: Final = 4
JAVA_TUNED: Final = {"batch.size": "1000000", "buffer.memory": "134217728", "linger.ms": "20"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One way to produce; the defaults are the base.

    Attributes:
        linger_ms, batch: None for the client's own.
    """

    difference: str = ""
    record_bytes: int = 1_024
    acks: str = "all"
    codec: str = "none"
    partitions: int = 6
    producers: int = 1
    more: Mapping[str, str] = field(default_factory=dict)
    contenders: tuple[str, ...] = BOTH

    @property
    def name(self) -> str:
        return ", ".join(filter(None, (f"produce {size_name(self.record_bytes)}", self.difference)))

    def load(self, scale: Scale, size_mb: int | None = None) -> Producing:
        """Return what is sent; the file is made if this is the first to send it."""
        amount = size_mb or scale.pick(SIZE_MB[self.record_bytes], QUICK_MB)
        return Producing(
            payload=payload(scale.scratch, self.record_bytes, amount * MB),
            partitions=self.partitions,
            producers=self.producers,
            properties={"acks": self.acks, "compression.type": self.codec, **self.more},
        )


def size_name(size: int) -> str:
    """Return a size as people write it."""
    return f"{size // 1024} KiB" if size % 1024 == 0 else f"{size} B"


CELLS: Final = (
    Cell(contenders=(*BOTH, OURS_S3, OURS_S3_50)),
    Cell(difference="lz4", codec="lz4"),
    Cell(record_bytes=100),
    Cell(record_bytes=100, difference="lz4", codec="lz4"),
    Cell(record_bytes=10_240),
    Cell(record_bytes=10_240, difference="lz4", codec="lz4"),
    Cell(difference="acks=1", acks="1"),
    Cell(difference="linger 0", more={"linger.ms": "0"}),
    Cell(
        difference="tuned: linger 50",
        more={"linger.ms": "50", "batch.num.messages": "100000", "batch.size": "1000000"},
    ),
    Cell(difference="1 partition", partitions=1),
    Cell(difference="64 partitions", partitions=64),
    Cell(difference="1,000 partitions", partitions=1_000),
    Cell(difference="12 producers", producers=12),
)
JAVA_CELLS: Final = (
    Cell(),
    Cell(difference="tuned: linger 20, batch 1 MB", more=JAVA_TUNED),
    Cell(record_bytes=100),
)


def cases(scale: Scale) -> Sequence[Case]:
    """Return all cases of produce, then those of consume, then the Java tools'."""
    produced = [_case(cell.name, partial(_produce, cell, scale), cell.contenders) for cell in CELLS]
    consumed = [
        _case("consume 1 KiB, from memory", partial(_from_memory, 1_024, scale)),
        _case("consume 100 B, from memory", partial(_from_memory, 100, scale)),
        _case("consume 1 KiB, warm store", partial(_from_store, False, scale)),
        _case("consume 1 KiB, cold store", partial(_from_store, True, scale)),
    ]
    java = [
        _case(f"Java: {cell.name}", partial(_produce_by_java, cell, scale)) for cell in JAVA_CELLS
    ]
    by_java = _case("Java: consume 1 KiB, from memory", partial(_consume_by_java, scale))
    return [*produced, *consumed, *java, by_java]


def _produce(cell: Cell, scale: Scale, running: Running) -> Figures:
    load = cell.load(scale)
    if not scale.quick:
        prime(scale.scratch)
    return produce(running, load)[1]


def _produce_by_java(cell: Cell, scale: Scale, running: Running) -> Figures:
    load = cell.load(scale)
    if not scale.quick:
        prime(scale.scratch)
    return produce_by_java(running, load)


def _from_memory(record_bytes: int, scale: Scale, running: Running) -> Figures:
    cell = Cell(record_bytes=record_bytes)
    load = cell.load(scale, scale.pick(IN_MEMORY_MB, QUICK_MB))
    topic, _ = produce(running, load)
    return consume(
        running,
        topic,
        records=load.payload.records,
        record_bytes=record_bytes,
        times=scale.pick(PASSES, 1),
    )


def _from_store(cold: bool, scale: Scale, running: Running) -> Figures:
    load = Cell().load(scale)
    topic, _ = produce(running, load)
    restart(running, topic)
    read = partial(
        consume,
        running,
        topic,
        records=load.payload.records,
        record_bytes=load.payload.record_bytes,
    )
    if cold:
        make_cold(running)
    else:
        read()
    return read()


def _consume_by_java(scale: Scale, running: Running) -> Figures:
    load = Cell().load(scale, scale.pick(IN_MEMORY_MB, QUICK_MB))
    topic, _ = produce(running, load)
    return consume_by_java(
        running, topic, records=load.payload.records, record_bytes=load.payload.record_bytes
    )


def _case(name: str, measure: "partial[Figures]", contenders: tuple[str, ...] = BOTH) -> Case:
    return Case(part=PART, name=name, measure=measure, contenders=contenders, anywhere=True)
