"""Encoded Metadata answers, kept until a topic or the cluster changes."""

from collections import OrderedDict
from typing import Final

MAX_BYTES: Final = 16 * 1024 * 1024

Key = tuple[int, str | None, int, bytes]
"""Listener, the client's rack, API version, request body: the same question, the same answer."""


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
        self._answers[key] = answer
        self._size += len(key[3]) + len(answer)
        while self._size > MAX_BYTES:
            (_, _, _, body), old = self._answers.popitem(last=False)
            self._size -= len(body) + len(old)

    def clear(self) -> None:
        """Forget everything: something changed."""
        self._answers.clear()
        self._size = 0
        self.generation += 1
