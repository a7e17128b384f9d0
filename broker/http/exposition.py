"""The text that GET /metrics answers, made piece by piece.

A broker with 100,000 series has 15 MB of it: made at once, every client would wait for a second
or more. A thread would not help, because it holds the same interpreter lock; so between two pieces,
a fraction of a millisecond each, the event loop goes on with what else there is.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

PIECE_LINES: Final = 500

_LABEL_ESCAPES: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
_HELP_ESCAPES: Final = str.maketrans({"\\": r"\\", "\n": r"\n"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One metric with its samples.

    Attributes:
        name: of its samples, too; a counter's ends in _total.
        text: what it is.
        samples: labels as label_text() has them, and a value; they may be made as they are taken.
    """

    name: str
    kind: Literal["gauge", "counter"] = "gauge"
    text: str
    samples: Iterable[tuple[str, float]]


class _One(Collector):
    """A single metric, for the library to format."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> Iterator[Metric]:
        yield self._metric


def label_text(**labels: str) -> str:
    """Return labels as they stand between braces; their names are ours."""
    return ",".join(f'{name}="{escape_label(value)}"' for name, value in labels.items())


def escape_label(value: str) -> str:
    """Return the value of a label as it stands between quotes."""
    return value.translate(_LABEL_ESCAPES)


def registry_pieces(registry: CollectorRegistry) -> Iterator[bytes]:
    """Yield the text of each metric of a registry; none of them may have many series."""
    for metric in registry.collect():
        yield generate_latest(_One(metric))


def family_pieces(families: Iterable[Family]) -> Iterator[bytes]:
    """Yield the text of families, a few lines at a time; one without samples has no text."""
    lines: list[str] = []
    for family in families:
        head = (
            f"# HELP {family.name} {family.text.translate(_HELP_ESCAPES)}\n"
            f"# TYPE {family.name} {family.kind}\n"
        )
        for labels, value in family.samples:
            where = f"{{{labels}}}" if labels else ""
            lines.append(f"{head}{family.name}{where} {_number(value)}\n")
            head = ""
            if len(lines) == PIECE_LINES:
                yield "".join(lines).encode()
                lines.clear()
    yield "".join(lines).encode()


def _number(value: float) -> str:
    if type(value) is int or math.isfinite(value):
        return repr(value)
    return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
