"""Whether an answer is one of an S3 server.

A proxy before it, a maintenance page or a captive portal answer 200 to everything, with nothing or
with HTML, and botocore takes that for an answer in which all is optional. So what S3 tells in every
answer has to be there. What is no such answer is asked for again, as if none had come.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from botocore.parsers import ResponseParserError

if TYPE_CHECKING:  # the stubs are there for development only
    from types_aiobotocore_s3 import S3Client

# By what an answer that has XML begins; nothing else of it is sure to be there.
_ROOTS: Final = {"DeleteObjects": b"<DeleteResult", "ListObjectsV2": b"<ListBucketResult"}
_ROOT_WITHIN_BYTES: Final = 1024
# What botocore, and who uses what it returns, raise of a header or an element that is none of S3's.
_UNREADABLE: Final = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


def check_roots(client: "S3Client") -> None:
    """Let a client look for the root element of what has one."""
    for operation, root in _ROOTS.items():
        check = partial(_check_root, root)
        client.meta.events.register_last(f"before-parse.s3.{operation}", check)


@contextmanager
def readable() -> Iterator[None]:
    """Ask, and read what is answered.

    Raises:
        ResponseParserError: it cannot be read.
    """
    try:
        yield
    except _UNREADABLE as error:
        raise ResponseParserError(f"its answer cannot be read: {error!r}") from error


def check_is_of_object(response: Mapping[str, Any]) -> None:
    """Check that an answer is about an object: S3 tells the ETag of each.

    Raises:
        ResponseParserError: it is not.
    """
    if not response.get("ETag"):
        raise ResponseParserError("its answer is not one of S3: there is no ETag")


def _check_root(root: bytes, response_dict: Mapping[str, Any], **_: object) -> None:
    is_success = response_dict["status_code"] == 200
    if is_success and root not in response_dict["body"][:_ROOT_WITHIN_BYTES]:
        raise ResponseParserError(f"its answer is not one of S3: there is no {root.decode()}>")
