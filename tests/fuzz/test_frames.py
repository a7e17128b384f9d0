"""Frames of every API and version through the code of a connection: typed errors, little memory.

`python -m tests.fuzz frames --count 10000000` is the long form.
"""

import tracemalloc
from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.conftest import Tell
from tests.fuzz.connection_path import MAX_FRAME_BYTES, cut
from tests.fuzz.frame_run import run_frames
from tests.fuzz.frames import advertised, frame_of
from tests.fuzz.judge import Judge
from tests.fuzz.measures import Meter
from tests.fuzz.regressions import STREAMS

CI_FRAMES = 20_000


@pytest.fixture
def judge() -> Iterator[Judge]:
    tracemalloc.start(1)
    try:
        yield Judge(Meter())
    finally:
        tracemalloc.stop()


def test_a_seeded_run_finds_nothing(tell: Tell) -> None:
    run = run_frames(CI_FRAMES, seed=1, measure_every=4)

    assert run.findings == []
    versions = {
        (name, version) for name, tally in run.tallies.items() for version in tally.versions
    }
    assert len(versions) == len(set(advertised()))
    assert all(tally.decoded for tally in run.tallies.values())
    tell(f"{run.frames / run.seconds:.0f} frames/s, {run.decoded} of {run.frames} decoded")


def test_a_seed_repeats_a_run() -> None:
    first, second = (run_frames(500, seed=7, measure_every=500) for _ in range(2))
    assert first.tallies == second.tallies


@given(
    kind=st.sampled_from(sorted(set(advertised()))),
    clean=st.booleans(),
    random=st.randoms(use_true_random=False),
    ends=st.lists(st.integers(0, 200), max_size=3).map(sorted),
)
@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
def test_no_frame_is_answered_with_a_bug(
    kind: tuple[int, int], clean: bool, random: Random, ends: list[int]
) -> None:
    sent = frame_of(random, *kind, clean=clean)
    judge = Judge(Meter(measures_memory=False))

    ends = [min(end, len(sent.data)) for end in ends]
    judge.send(sent.data, ends, api_key=sent.api_key, version=sent.version)

    assert judge.findings == []


@pytest.mark.parametrize("kind", sorted(set(advertised())), ids=str)
def test_what_the_grammar_makes_is_understood(kind: tuple[int, int]) -> None:
    # Given requests by kio's schema, without damage; some time spans are beyond kio's own
    random, judge = Random(str(kind)), Judge(Meter(measures_memory=False))
    frames = [frame_of(random, *kind, clean=True) for _ in range(20)]

    # When they are sent, Then nearly all are decoded, whatever the handlers may think of them
    decoded = [judge.send(sent.data, api_key=kind[0], version=kind[1]) for sent in frames]
    assert judge.findings == []
    assert sum(decoded) >= 15, judge.tallies


@pytest.mark.parametrize("name", STREAMS)
def test_what_broke_something_once_does_not_any_more(judge: Judge, name: str) -> None:
    stream = bytes.fromhex(STREAMS[name])
    for api_key, version in ((int.from_bytes(stream[4:6]), int.from_bytes(stream[6:8])),) * 2:
        judge.findings.clear()  # the first time compiles what is measured the second time
        judge.send(stream, api_key=api_key, version=version)
    assert judge.findings == []


@given(stream=st.binary(max_size=300), ends=st.lists(st.integers(0, 300), max_size=4).map(sorted))
def test_garbage_is_cut_alike_however_it_arrives(stream: bytes, ends: list[int]) -> None:
    stream = b"\0\0\0" + stream  # else nearly all of it announces a frame of gigabytes
    ends = [min(end, len(stream)) for end in ends]
    assert len(stream) < MAX_FRAME_BYTES
    assert _frames(stream, ends) == _frames(stream, [])


def _frames(stream: bytes, ends: list[int]) -> list[bytes]:
    found: list[bytes] = []
    try:
        found.extend(map(bytes, cut(stream, ends)))
    except ValueError:
        raise
    except Exception as refusal:  # noqa: BLE001  # compared, not swallowed
        found.append(type(refusal).__name__.encode())
    return found
