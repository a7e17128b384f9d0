"""Streams that broke something once, as hex, with their sizes; each test run sends them again.

A long run tells a finding with its stream: give it a name here.
"""

from typing import Final

_FLEXIBLE_HEADER: Final = "000466757a7a00"  # client id "fuzz", no tagged fields

STREAMS: Final[dict[str, str]] = {
    # 15,000 replica directories without a name or a topic: 3 bytes each, 42 times that when decoded
    "empty-log-dirs": (
        "0000afd70022000200000001" + _FLEXIBLE_HEADER + "997501" + "010001" * 14_999 + "00"
    ),
    # 30,000 topics and partitions of nothing in a Produce request, a view of 184 bytes for each
    "empty-batches": (
        "0003349d"
        "00000009"
        "00000001" + _FLEXIBLE_HEADER + "00"
        "0001"
        "00000000"
        "02"
        "01"
        "b1ea01" + "000000000100" * 29_999 + "0000"
    ),
    # 16,295 topics to delete, each named by a line's end
    "one-letter-names": (
        "0000bf0b0014000176ac0191000466757a7a00003fa7" + "00010a" * 16_295 + "006047f3"
    ),
}
