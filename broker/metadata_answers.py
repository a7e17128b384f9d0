"""Encoded Metadata answers, kept until a topic or the cluster changes."""

from collections import OrderedDict
from typing import Final

MAX_BYTES: Final = 16 * 1024 * 1024
ENTRY_BYTES: Final = 512
"""What an answer takes besides its bytes, about: the objects around it."""

Key = tuple[int, str | None, int, bytes, str | None]
"""Listener, the client's rack, API version, request body and, where ACLs decide, who the client is:
the same question, the same answer."""


def _size(key: Key, answer: bytes) -> int:
    return ENTRY_BYTES + len(key[3]) + len(key[4] or "") + len(answer)


class EncodedAnswers:
    """Least recently used answers go first.

    Attributes:
        generation: grows with every change; an answer made before a change is not kept after it.
    """

    def __init__(self) -> None:
        self._answers: OrderedDict[Key, bytes] = OrderedDict()
        self._size = 0
        self.generation = 0

    def get(self, key: Key) -> bytes | None:
        """Return a whole response frame; its correlation id is another request's."""
        answer = self._answers.get(key)
        if answer is not None:
            self._answers.move_to_end(key)
        return answer

    def put(self, key: Key, answer: bytes) -> None:
        if (old := self._answers.pop(key, None)) is not None:  # two asked the same at a time
            self._size -= _size(key, old)
        self._answers[key] = answer
        self._size += _size(key, answer)
        while self._size > MAX_BYTES:
            self._size -= _size(*self._answers.popitem(last=False))

    def clear(self) -> None:
        """Forget everything: something changed."""
        self._answers.clear()
        self._size = 0
        self.generation += 1
