"""What the schema registry says of schema ids, remembered.

An id means the same schema for ever, so what is registered is believed for an hour, and after it
for as long as the registry does not answer. What is not registered may be so soon: that is believed
for seconds. It is remembered by id and subjects together: a schema that gets a second subject keeps
its id, and its producer sends records at once.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Final, Generic, TypeVar

from broker.schemas.registry_client import RegistryClient, RegistryUnavailable
from broker.schemas.schema_subjects import type_names
from broker.shared_load import shared_task

BELIEVED_S: Final = 3600.0

_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")


class SchemaRegistry:
    """Tells what is registered, with as few requests as that takes.

    Args:
        max_remembered: answers of each kind, the ones used last.
        unknown_s: how long it is believed that something is not registered.
    """

    def __init__(self, client: RegistryClient, *, max_remembered: int, unknown_s: float) -> None:
        self._client = client
        self._subjects = Answers(
            self._ask_subjects, max_remembered=max_remembered, unknown_s=unknown_s
        )
        self._names = Answers(self._ask_names, max_remembered=max_remembered, unknown_s=unknown_s)

    async def is_registered(self, schema_id: int, subjects: frozenset[str]) -> bool:
        """Return whether the schema with that id is registered under one of the subjects.

        Raises:
            RegistryUnavailable: nobody can tell now.
        """
        return await self._subjects.get((schema_id, subjects)) is not None

    async def names(self, schema_id: int) -> frozenset[str]:
        """Return the names of the types of a schema (schema_subjects.type_names).

        Raises:
            RegistryUnavailable: nobody can tell now.
        """
        return await self._names.get(schema_id) or frozenset()

    async def _ask_subjects(self, key: tuple[int, frozenset[str]]) -> bool | None:
        schema_id, subjects = key
        versions = await self._client.get(f"/schemas/ids/{schema_id}/versions")
        if versions is None:
            return None
        if not isinstance(versions, list):
            raise RegistryUnavailable("its answer is no list of subjects")
        registered = any(
            isinstance(one, dict) and one.get("subject") in subjects for one in versions
        )
        return registered or None

    async def _ask_names(self, schema_id: int) -> frozenset[str] | None:
        return type_names(await self._client.get(f"/schemas/ids/{schema_id}")) or None


class Answers(Generic[_Key, _Value]):
    """Answers to questions of one kind; who asks the same at the same time shares the answer.

    Args:
        ask: returns None for what does not exist; raises RegistryUnavailable.
    """

    def __init__(
        self,
        ask: Callable[[_Key], Awaitable[_Value | None]],
        *,
        max_remembered: int,
        unknown_s: float,
    ) -> None:
        self._ask = ask
        self._max_remembered = max_remembered
        self._unknown_s = unknown_s
        self._found: OrderedDict[_Key, tuple[_Value, float]] = OrderedDict()
        self._unknown: OrderedDict[_Key, float] = OrderedDict()  # apart: guesses push nothing out
        self._asking: dict[_Key, asyncio.Task[_Value | None]] = {}

    async def get(self, key: _Key) -> _Value | None:
        """Return the answer, None for what does not exist.

        Raises:
            RegistryUnavailable: there is none, and none that was believed before.
        """
        now_s = asyncio.get_running_loop().time()
        known = self._found.get(key)
        if known is not None:
            self._found.move_to_end(key)
            if now_s - known[1] < BELIEVED_S:
                return known[0]
        elif now_s - self._unknown.get(key, float("-inf")) < self._unknown_s:
            return None
        asking = self._asking.get(key)
        if asking is None:
            asking = self._asking[key] = shared_task(self._learn(key))
            asking.add_done_callback(lambda _: self._asking.pop(key))
        try:
            return await asyncio.shield(asking)
        except RegistryUnavailable:
            if known is None:
                raise
            return known[0]

    async def _learn(self, key: _Key) -> _Value | None:
        answer = await self._ask(key)
        now_s = asyncio.get_running_loop().time()
        if answer is None:
            self._found.pop(key, None)
            self._unknown[key] = now_s
            self._unknown.move_to_end(key)
            _shrink(self._unknown, self._max_remembered)
        else:
            self._unknown.pop(key, None)
            self._found[key] = (answer, now_s)
            self._found.move_to_end(key)
            _shrink(self._found, self._max_remembered)
        return answer


def _shrink(answers: OrderedDict[_Key, _Value], size: int) -> None:
    while len(answers) > size:
        answers.popitem(last=False)
