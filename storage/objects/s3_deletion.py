"""Objects that one DeleteObjects of S3 takes, until each is deleted or refused.

The answer names those that are kept. A code that passes may stay with one key for ever (a broken
shard of a server), which is no reason to keep the others: only what is left is asked for again.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from botocore.exceptions import ClientError

from storage.objects.s3_answers import readable
from storage.objects.s3_errors import describe, is_throttle, is_transient

if TYPE_CHECKING:  # the stubs are there for development only
    from types_aiobotocore_s3 import S3Client

DELETE_LIMIT: Final = 1000  # keys that one DeleteObjects takes


class S3Deletion:
    """Paths of one bucket below a root.

    Attributes:
        refused: what the server keeps, and why.
    """

    def __init__(self, client: "S3Client", bucket: str, root: str, paths: Sequence[str]) -> None:
        self.refused: dict[str, str] = {}
        self._client = client
        self._bucket = bucket
        self._root = root
        self._deleted = 0
        self._is_throttled = False
        self._left = dict.fromkeys(paths, "")  # and why, once that was answered

    async def attempt(self, _: Callable[[], None]) -> None:
        """Ask for what is left.

        Raises:
            ClientError: for some of it, it has to be asked again; or the server refuses, without a
                word of what.
        """
        with readable():
            response = await self._client.delete_objects(
                Bucket=self._bucket,
                Delete={
                    "Objects": [{"Key": self._root + path} for path in self._left],
                    "Quiet": True,
                },
            )
        left: dict[str, str] = {}
        refused: dict[str, str] = {}
        again: ClientError | None = None
        for failed in response.get("Errors", ()):
            code = failed.get("Code", "")
            if code == "NoSuchKey":
                continue
            error = ClientError({"Error": {"Code": code}}, "DeleteObjects")
            key = failed.get("Key")
            if key is None:  # some that speak S3 leave it out
                raise error
            path = key[len(self._root) :]
            if is_transient(error):
                left[path], again = describe(error), error
            else:
                refused[path] = describe(error)
        self._deleted += len(self._left) - len(left) - len(refused)
        self._left, self._is_throttled = left, again is not None and is_throttle(again)
        self.refused |= refused
        if again is not None:
            raise again

    def give_up(self) -> bool:
        """Count what is left as refused; return whether it may be: the server deletes others.

        One that asks for fewer requests deletes these, too, by and by.
        """
        if not self._deleted or self._is_throttled or not all(self._left.values()):
            return False
        self.refused |= self._left
        return True
