"""One stream through the code of a connection, judged: refused properly, accepted, or a finding."""

import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field

from kio.schema.index import api_key_map

from tests.fuzz.connection_path import TYPED, Look, cut, decode, looks
from tests.fuzz.measures import Meter


@dataclass(slots=True)
class Tally:
    """Frames of one API: how many were decoded, and by what others were refused."""

    frames: int = 0
    decoded: int = 0
    looks: int = 0
    versions: set[int] = field(default_factory=set)
    refused: dict[str, int] = field(default_factory=dict)

    def refuse(self, error: Exception) -> None:
        name = type(error).__name__
        self.refused[name] = self.refused.get(name, 0) + 1

    def add(self, other: "Tally") -> None:
        self.frames += other.frames
        self.decoded += other.decoded
        self.looks += other.looks
        self.versions |= other.versions
        for name, count in other.refused.items():
            self.refused[name] = self.refused.get(name, 0) + count


class Judge:
    """Sends streams, counts outcomes, and keeps what is wrong.

    Attributes:
        findings: one text each, with the stream as hex.
        tallies: by API name.
    """

    def __init__(self, meter: Meter) -> None:
        self.meter = meter
        self.findings: list[str] = []
        self.tallies: dict[str, Tally] = {}

    def send(self, stream: bytes, ends: Sequence[int] = (), *, api_key: int, version: int) -> bool:
        """Return whether the stream's first frame was decoded.

        Args:
            stream: with the frames' sizes.
            ends: where its pieces end, ascending.
            api_key: that the stream is counted for.
            version: likewise.
        """
        name = api_key_map.get(api_key, "no API")
        tally = self.tallies.setdefault(name, Tally())
        tally.frames += 1
        tally.versions.add(version)
        decoded = False
        try:
            for frame in cut(stream, ends):
                decoded = self._answer(frame, f"{name} v{version}", tally) or decoded
        except TYPED as refusal:
            tally.refuse(refusal)
        # The whole point: whatever else comes out of it is a bug, and is told with its stream.
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            self._find("".join(traceback.format_exception(error)), stream)
        if self.meter.over:
            self._find("; ".join(self.meter.over), stream)
            self.meter.over.clear()
        tally.decoded += decoded
        return decoded

    def _answer(self, frame: bytearray, what: str, tally: Tally) -> bool:
        size = len(frame)
        header, request = self.meter.run(what, size, 0, lambda: decode(frame))
        for look in looks(header, request):
            tally.looks += 1
            self._look(look, what, size, tally)
        return True

    def _look(self, look: Look, what: str, size: int, tally: Tally) -> None:
        try:
            self.meter.run(f"{what}, {look.name}", size, look.limit_bytes, look.take)
        except TYPED as refusal:
            tally.refuse(refusal)

    def _find(self, text: str, stream: bytes) -> None:
        self.findings.append(f"{text}\n{stream.hex()}")
