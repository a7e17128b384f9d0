"""Replays the corpus to one broker and keeps what it answers, masked."""

import asyncio
import struct
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final

from kio.index import load_response_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader
from kio.serial.errors import SerialError

from tests.oracle.wire_cases import Ask, Begin, Bytes, Case, Common, Finish, Given, Step
from tests.oracle.wire_frames import frame_of
from tests.oracle.wire_masks import Masks, Plain, error_codes
from tests.oracle.wire_values import Memory
from tests.support.wire import API_VERSIONS, ConnectionEnded, WireClient

CLOSED: Final = "connection closed"
LEFT_OVER: Final = "bytes are left over"
UNREADABLE: Final = "not to be read by the codec"
WITHOUT_IDS: Final = (38, 39, 40)  # answers that are the same to the byte
AT_ONCE: Final = 16
SIZE_BYTES: Final = 4
GIVEN_S: Final = 120.0
SETTLE_S: Final = 60.0
PAUSE_S: Final = 0.01
NOT_YET: Final = frozenset(  # what any broker says of itself for a moment: nothing was done
    {
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
        ErrorCode.concurrent_transactions,
    }
)
NOT_YET_NAMES: Final = frozenset(code.name for code in NOT_YET)

Versions = Mapping[int, tuple[int, int]]
"""The lowest and the highest version, by API."""


class CaseFailed(AssertionError):
    """A step that has to succeed did not; the message names broker, case and step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came for one step.

    Attributes:
        step: which one, from 1, with its API's number if it has one.
        api_key: of the request; None for bytes.
        plain: the masked answer, or CLOSED, or None for what is not answered.
    """

    step: int
    api_key: int | None
    plain: Plain


CaseKey = tuple[int, str, int]
"""API, case and version."""

Replay = Mapping[CaseKey, list[Answer]]


@dataclass(slots=True)
class Run:
    """All replays to one broker.

    Attributes:
        versions: the lowest and the highest, by API.
        name: keeps the names of this run apart from those of earlier ones.
    """

    bootstrap: str
    versions: Versions
    name: str
    _common: dict[str, asyncio.Task[Memory]] = field(default_factory=dict)

    async def common(self, common: Common) -> Memory:
        """Return what is remembered of steps that are done once."""
        if common.name not in self._common:
            self._common[common.name] = asyncio.create_task(self._do(common))
        return await self._common[common.name]

    async def _do(self, common: Common) -> Memory:
        case = Case(api_key=-1, name=common.name, steps=common.steps)
        played = CaseReplay(self, case, 0, Memory(here=f"{common.name}-{self.name}"))
        await played.run()
        return played.memory


@dataclass(slots=True)
class CaseReplay:
    """One case at one version, on connections of its own."""

    of: Run
    case: Case
    version: int
    memory: Memory
    _clients: dict[str, WireClient] = field(default_factory=dict)
    _begun: dict[str, Any] = field(default_factory=dict)
    _frames: int = 0

    async def run(self) -> list[Answer]:
        """Return the answers to the steps that are compared.

        Raises:
            CaseFailed: a step that has to succeed did not.
        """
        masks, answers = Masks(self.memory), list[Answer]()
        try:
            for number, step in enumerate(self.case.steps, 1):
                answer = await self._step(step, number)
                match step:
                    case Ask(api_key=key):
                        plain = masks.plain(key, self._own(step, answer))
                        answers.append(Answer(step=number, api_key=key, plain=plain))
                    case Finish(on=on):
                        key = self._begun[on][0]
                        plain = masks.plain(key, answer)
                        answers.append(Answer(step=number, api_key=key, plain=plain))
                    case Bytes():
                        answers.append(Answer(step=number, api_key=None, plain=answer))
                    case Given() | Begin() | Common():
                        pass
        finally:
            for client in self._clients.values():
                await client.__aexit__()
        return answers

    async def _step(self, step: Step, number: int) -> Any:
        try:
            match step:
                case Ask():
                    return await self._ask(step)
                case Given():
                    return await self._given(step)
                case Common():
                    known = await self.of.common(step)
                    self.memory.saved |= known.saved
                    self.memory.common = known.here
                    self.memory.common_names = frozenset(known.saved)
                case Begin(asked=asked):
                    self._begun[asked.on] = (asked.api_key, await self._send(asked))
                    return None
                case Finish(on=on):
                    return await self._answer(on, self._begun[on][1])
                case Bytes():
                    return await self._bytes(step)
        except (
            CaseFailed,
            TimeoutError,
            LookupError,
            TypeError,
            ValueError,
            AttributeError,
            AssertionError,
            struct.error,
        ) as error:
            where = f"{self.of.bootstrap} k{self.case.api_key} {self.case.name} v{self.version}"
            raise CaseFailed(f"{where} step {number}: {error!r}") from error

    async def _ask(self, step: Ask) -> Any:
        deadline_s = time.monotonic() + SETTLE_S
        while True:
            request = await self._send(step)
            answer = await self._answer(step.on, request) if step.answered else None
            if not self._is_early(step, answer) or time.monotonic() > deadline_s:
                break
            await asyncio.sleep(PAUSE_S)
        self._save(step, answer)
        return answer

    def _is_early(self, step: Ask, answer: Any) -> bool:
        if isinstance(answer, str) or answer is None:
            return False
        if not _has(answer, step.until):
            return True
        codes = set(error_codes(Masks(self.memory).plain(-1, answer)))
        return bool(codes & NOT_YET_NAMES)

    async def _given(self, step: Given) -> None:
        deadline_s = time.monotonic() + GIVEN_S
        while True:
            answer = await self._answer(step.on, await self._send(step))
            if not isinstance(answer, str):
                codes = error_codes(Masks(self.memory).plain(-1, answer))
                if not codes and _has(answer, step.until):
                    break
            if time.monotonic() > deadline_s:
                raise CaseFailed(f"not done: {answer}")
            await asyncio.sleep(PAUSE_S)
        self._save(step, answer)

    async def _send(self, step: Ask | Given) -> Any:
        client = await self._client(step.on)
        values = self.memory.resolve(step.values)
        self._frames += 1
        version = step.version
        if version is None:
            tested = step.api_key == self.case.api_key and isinstance(step, Ask)
            version = self.version if tested else self.of.versions[step.api_key][1]
        frame, request = frame_of(step.api_key, version, values, self._frames)
        if isinstance(step, Ask) and step.change is not None:
            content = step.change(frame[SIZE_BYTES:])
            frame = struct.pack(">i", len(content)) + content
        with suppress(ConnectionEnded):  # then the answer will be that it is closed
            await client.send(frame)
        return request

    async def _answer(self, on: str, request: Any) -> Any:
        try:
            frame = await self._clients[on].receive_frame()
        except ConnectionEnded:
            await self._clients.pop(on).__aexit__()
            return CLOSED
        key = request.__api_key__
        kind: Any = load_response_schema(key, request.__version__)
        start = 5 if kind.__flexible__ and key != API_VERSIONS else 4
        try:
            answer, size = entity_reader(kind)(frame, start)
            return answer if start + size == len(frame) else LEFT_OVER
        except SerialError:  # for it, no time is negative
            return frame[start:].hex() if key in WITHOUT_IDS else UNREADABLE

    async def _bytes(self, step: Bytes) -> Plain:
        size = len(step.content) if step.size is None else step.size
        client = await self._client(step.on)
        try:
            await client.send(struct.pack(">i", size) + step.content)
            frame = await client.receive_frame()
        except ConnectionEnded:
            await self._clients.pop(step.on).__aexit__()
            return CLOSED
        return frame[:6].hex()  # correlation id and error code

    async def _client(self, on: str) -> WireClient:
        if on not in self._clients:
            _, _, host = on.partition("@")
            self._clients[on] = await WireClient.connect(self.of.bootstrap, local_host=host or None)
        return self._clients[on]

    def _save(self, step: Ask | Given, answer: Any) -> None:
        for name, path in step.save.items():
            self.memory.saved[name] = _at(answer, path)

    def _own(self, step: Ask, answer: Any) -> Any:
        """Return the answer without elements of other cases."""
        if isinstance(answer, str):
            return answer
        for name in step.own:
            elements = getattr(answer, name) or ()  # a refusal may have none
            mine = tuple(one for one in elements if self.memory.here in repr(one))
            answer = replace(answer, **{name: mine})
        return answer


def _at(answer: Any, path: str) -> Any:
    for part in path.split("."):
        answer = answer[int(part)] if part.isdigit() else getattr(answer, part)
    return answer


def _has(answer: Any, wanted: Mapping[str, Any]) -> bool:
    try:
        return all(_at(answer, path) == value for path, value in wanted.items())
    except (IndexError, AttributeError):  # not even there yet
        return False


async def replay(run: Run, cases: Iterable[Case]) -> tuple[dict[CaseKey, list[Answer]], list[str]]:
    """Replay cases, several at once; those of APIs that have no versions are left out.

    Returns:
        The answers, in the order of the cases, and what went wrong in cases that have none.
    """
    slots = asyncio.Semaphore(AT_ONCE)
    found: dict[CaseKey, list[Answer]] = {}
    failed: list[str] = []

    async def one(case: Case, version: int, number: int) -> None:
        async with slots:
            memory = Memory(here=f"k{case.api_key}-{number}-v{version}-{run.name}")
            try:
                key = (case.api_key, case.name, version)
                found[key] = await CaseReplay(run, case, version, memory).run()
            except CaseFailed as failure:
                failed.append(str(failure))

    numbered = [
        (case, version, number)
        for number, case in enumerate(cases)
        if case.api_key in run.versions
        for version in case.versions or sorted(set(run.versions[case.api_key]))
    ]
    async with asyncio.TaskGroup() as group:
        for case, version, number in numbered:
            if not case.alone:
                group.create_task(one(case, version, number))
    for case, version, number in numbered:
        if case.alone:
            await one(case, version, number)
    keys = [(case.api_key, case.name, version) for case, version, _ in numbered]
    return {key: found[key] for key in keys if key in found}, failed
