"""Lines of JSON events, which compress as events do: what all clients send."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MB: Final = 1_000_000
DISTINCT_BYTES: Final = 4 * MB
"""Then the same lines come again: codecs look back 64 KiB (lz4) and see no repetition."""
SEED: Final = 10
WORDS: Final = 2_000
KINDS: Final = ("page_view", "click", "purchase", "sign_up", "search", "add_to_cart", "error")
LETTERS: Final = "etaoinshrdlucmfwypvbgkjqxz"


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """A file of lines of the same length.

    Attributes:
        record_bytes: of a line, without its line feed.
        different: a file of the lines that differ from each other, for a client that keeps all
            lines in memory.
    """

    file: Path
    different: Path
    record_bytes: int
    records: int


def payload(folder: Path, record_bytes: int, size: int) -> Payload:
    """Return a file of about `size` bytes in `folder`; it is written once."""
    file = folder / f"events-{record_bytes}-{size}"
    block = b"".join(_lines(record_bytes))
    times = max(size // len(block), 1)
    different = folder / f"different-{record_bytes}"
    if not file.exists():
        different.write_bytes(block)
        with file.open("wb") as output:
            for _ in range(times):
                output.write(block)
    records = times * (len(block) // (record_bytes + 1))
    return Payload(file=file, different=different, record_bytes=record_bytes, records=records)


def _lines(record_bytes: int) -> Iterator[bytes]:
    chosen = random.Random(SEED)  # noqa: S311 (the same for every run)
    words = ["".join(chosen.choices(LETTERS, k=chosen.randint(2, 11))) for _ in range(WORDS)]
    for number in range(DISTINCT_BYTES // (record_bytes + 1)):
        head = (
            f'{{"id":"{chosen.getrandbits(64):016x}","at":{1_700_000_000_000 + number * 7},'
            f'"kind":"{chosen.choice(KINDS)}","user":{chosen.randrange(1_000_000)},"text":"'
        )
        room = record_bytes - len(head) - 2
        # short words come often and rare ones seldom, as in speech
        text = " ".join(words[int(chosen.paretovariate(0.7)) % WORDS] for _ in range(room // 4 + 1))
        yield f'{head}{text[:room]:.<{max(room, 0)}}"}}\n'.encode()
