"""Coverage-guided: atheris changes streams, and keeps those that reach new lines of the parsers.

The corpus begins with frames of the grammar, a few for each API and version. No mutation meets the
checksum of a record batch; so what begins with BATCH is codec, record count and payload of one that
is put into a Produce request with a right checksum. What libFuzzer finds it writes as crash-… into
the working directory; tests/fuzz/regressions.py is where it belongs.
"""

import sys
import tracemalloc
from pathlib import Path
from random import Random
from typing import Final

from protocol.batch import HEADER_BYTES, read_header
from tests.fuzz.batches import batch_pool
from tests.fuzz.frames import advertised, frame_of

BATCH: Final = 0xFE
SEEDS_PER_VERSION: Final = 4
SEEDED_BATCHES: Final = 60
MAX_STREAM_BYTES: Final = 4096
_INSTRUMENTED: Final = (
    "protocol",
    "coordinator.classic_subscription",
    "coordinator.consumer_protocol",
)


class Found(Exception):
    """A stream that is answered with a bug."""


def write_corpus(directory: Path, seed: int) -> int:
    """Write frames of every API and version, one file each; return how many."""
    directory.mkdir(parents=True, exist_ok=True)
    random, written = Random(seed), 0
    for api_key, version in sorted(set(advertised())):
        for number in range(SEEDS_PER_VERSION):
            sent = frame_of(random, api_key, version, clean=number < SEEDS_PER_VERSION - 1)
            if len(sent.data) <= MAX_STREAM_BYTES:
                name = f"{api_key:02}-{version:02}-{number}"
                (directory / name).write_bytes(sent.data)
                written += 1
    for number, batch in enumerate(batch_pool()[:SEEDED_BATCHES]):
        header = read_header(batch)
        head = bytes((BATCH, header.codec)) + header.record_count.to_bytes(2, "big", signed=False)
        (directory / f"batch-{number}").write_bytes(head + batch[HEADER_BYTES:])
        written += 1
    return written


def run(directory: Path, *, seconds: int, seed: int) -> None:
    """Fuzz for so long, then end the process: libFuzzer does not come back.

    Its exit code is 0 if nothing was found.
    """
    import atheris  # noqa: PLC0415  # it has to see the parsers before anybody else imports them

    _forget_parsers()
    with atheris.instrument_imports(include=list(_INSTRUMENTED)):
        from tests.fuzz.batches import produced  # noqa: PLC0415
        from tests.fuzz.frame_run import warm_up  # noqa: PLC0415
        from tests.fuzz.judge import Judge  # noqa: PLC0415
        from tests.fuzz.measures import Meter  # noqa: PLC0415
    write_corpus(directory, seed)
    warm_up()
    judge = Judge(Meter())
    tracemalloc.start(1)

    def one(stream: bytes) -> None:
        if stream[:1] == bytes((BATCH,)) and len(stream) >= 4:
            stream = produced(stream[1] & 7, int.from_bytes(stream[2:4]), stream[4:])
        judge.send(stream, (len(stream) // 2,), api_key=-1, version=0)
        if judge.findings:
            raise Found(judge.findings[0])

    options = [f"-max_total_time={seconds}", f"-seed={seed}", f"-max_len={MAX_STREAM_BYTES}"]
    limits = ["-rss_limit_mb=1024", "-timeout=10", "-print_final_stats=1"]
    atheris.Setup([sys.argv[0], *options, *limits, str(directory)], one)
    atheris.Fuzz()


def _forget_parsers() -> None:
    """Have all that is to be instrumented imported once more."""
    ours = ("protocol", "coordinator", "broker", "tests.fuzz")
    for name in list(sys.modules):
        if name.partition(".")[0] in ours[:3] or name.startswith(ours[3]):
            del sys.modules[name]
