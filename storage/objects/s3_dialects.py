"""What botocore leaves to be done for servers that speak S3 but are not AWS."""

import base64
import re
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from hashlib import md5
from typing import TYPE_CHECKING, Any, Final

from botocore.exceptions import ClientError

from storage.config import MiB
from storage.objects.s3_errors import status_of

if TYPE_CHECKING:  # the stubs are there for development only
    from types_aiobotocore_s3 import S3Client

_CONTENT_RANGE: Final = re.compile(r"bytes (\d+)-(\d+)/")


# Above this size the server is asked before the body is sent (100-continue): a refusal that comes
# while we send may be lost in the reset of the connection. Below, the round trip is saved.
_EXPECT_CONTINUE_BYTES: Final = 1 * MiB


class LargeBodies:
    """Whether the server is asked before a large body is sent to it.

    Some servers, and proxies before them, wait for the body all the same, or refuse (417). So a
    request that got no answer, or that one, is followed by others in the other way.
    """

    def __init__(self, client: "S3Client") -> None:
        self._asks_first = True
        client.meta.events.register_last("before-call.s3", self._expect_only_if_large)

    @contextmanager
    def sending(self, size: int) -> Iterator[None]:
        """Learn from what becomes of a request whose body has `size` bytes."""
        asks_first = self._asks_first
        try:
            yield
        except BaseException as error:  # a try that is given up is cancelled
            is_answered = isinstance(error, ClientError) and status_of(error) != 417
            if size > _EXPECT_CONTINUE_BYTES and not is_answered:
                self._asks_first = not asks_first
            raise

    def _expect_only_if_large(self, params: MutableMapping[str, Any], **_: object) -> None:
        """Undo what botocore does for every body."""
        headers = params["headers"]
        if "Expect" in headers:
            is_large = int(headers["Content-Length"]) > _EXPECT_CONTINUE_BYTES
            if not (is_large and self._asks_first):
                del headers["Expect"]


def adapt(client: "S3Client") -> None:
    """Make a client's requests fit for such servers."""
    events = client.meta.events
    events.register_last("before-call.s3.DeleteObjects", _add_md5)
    events.register_last("before-call.s3.HeadBucket", _look_no_further)


def length_of(response: Mapping[str, Any]) -> int | None:
    """Return how many bytes the body of an answer has; None if it tells that nowhere.

    A proxy may send them in chunks, without a Content-Length.
    """
    if "ContentLength" in response:
        return int(response["ContentLength"])
    told = _CONTENT_RANGE.match(response.get("ContentRange", ""))
    return int(told[2]) - int(told[1]) + 1 if told else None


def _add_md5(params: MutableMapping[str, Any], **_: object) -> None:
    """Send the checksum that S3 once asked for, and that some servers know no other than."""
    digest = md5(params["body"], usedforsecurity=False).digest()
    params["headers"]["Content-MD5"] = base64.b64encode(digest).decode()


def _look_no_further(params: MutableMapping[str, Any], **_: object) -> None:
    """Keep a redirection of HeadBucket from being looked into.

    botocore asks so for the region of a bucket that is elsewhere. Where the answer is one more
    redirection, without AWS's header, it would ask again, deeper and deeper.
    """
    params["context"]["s3_redirect"]["redirected"] = True
