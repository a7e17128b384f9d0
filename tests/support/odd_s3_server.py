"""A server that speaks S3 as some servers, and proxies before them, do, and others do not."""

import asyncio
import re
import socket
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Final, Self
from urllib.parse import parse_qs, unquote, urlsplit

PIECE_BYTES: Final = 64 * 1024
CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
RANGE: Final = re.compile(r"bytes=(\d+)-(\d+)")
KEY: Final = re.compile(r"<Key>(.*?)</Key>")
ETAG: Final = {"ETag": '"odd"'}
ENTRY: Final = (
    "<Contents><Key>{}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>"
    "<Size>{}</Size></Contents>"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request."""

    method: str
    key: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Answer:
    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


def error(status: int, code: str, message: str = "") -> Answer:
    body = f"<Error><Code>{code}</Code><Message>{message}</Message></Error>"
    return Answer(status, body.encode(), {"Content-Type": "application/xml"})


@dataclass(slots=True, kw_only=True)
class OddS3Server:
    """One bucket, whatever its name. Credentials are not looked at.

    Attributes:
        continues: what comes before the body of a request with `Expect: 100-continue`: the
            interim answer, nothing, or 417.
        lengths: whether bodies have a Content-Length, or come in chunks.
        refusals: what is answered, by method, in place of what was asked for.
        unreadable: what is answered, by key, to whoever reads it.
        kept: codes that deleting a key is refused with.
        delete_s: what it takes to delete one key, whether it is there or not.
        piece_s: what it takes to take, or to send, PIECE_BYTES of a body.
        needs_md5: DeleteObjects must have a Content-MD5, whatever other checksum there is.
        tokens: whether a page of a listing tells where the next one begins, and may begin there.
        objects: by key.
        asked: requests by method.
        wanted: keys that somebody wanted to read.
    """

    endpoint: str = ""
    continues: bytes = CONTINUE
    lengths: bool = True
    refusals: dict[str, Answer] = field(default_factory=dict)
    unreadable: dict[str, Answer] = field(default_factory=dict)
    kept: dict[str, str] = field(default_factory=dict)
    delete_s: float = 0
    piece_s: float = 0
    needs_md5: bool = False
    tokens: bool = True
    objects: dict[str, bytes] = field(default_factory=dict)
    asked: Counter[str] = field(default_factory=Counter)
    wanted: set[str] = field(default_factory=set)

    @classmethod
    @asynccontextmanager
    async def running(cls) -> AsyncIterator[Self]:
        """Listen on a free port of the loopback interface."""
        server = cls()
        place = socket.create_server(("127.0.0.1", 0))
        # or the kernel takes, or gives, megabytes that nobody has read, or sent
        for buffer in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            place.setsockopt(socket.SOL_SOCKET, buffer, PIECE_BYTES)
        listener = await asyncio.start_server(server._serve, sock=place, limit=PIECE_BYTES)
        server.endpoint = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
        try:
            yield server
        finally:
            listener.close()
            await listener.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                first, *lines = head.decode().strip().split("\r\n")
                headers = {
                    name.lower(): value for name, value in (line.split(": ", 1) for line in lines)
                }
                method, target, _ = first.split()
                self.asked[method] += 1
                if "expect" in headers:
                    writer.write(self.continues)
                    if self.continues not in {CONTINUE, b""}:
                        break
                body = await self._receive(reader, int(headers.get("content-length", 0)))
                parts = urlsplit(target)
                asked = Asked(
                    method=method,
                    key=unquote(parts.path).lstrip("/").partition("/")[2],
                    query={name: values[0] for name, values in parse_qs(parts.query).items()},
                    headers=headers,
                    body=body,
                )
                if method == "GET":
                    self.wanted.add(asked.key)
                await self._send(writer, self._encoded(asked, await self._answer(asked)))
        writer.close()

    async def _receive(self, reader: asyncio.StreamReader, size: int) -> bytes:
        body = bytearray()
        while len(body) < size:
            body += await reader.readexactly(min(PIECE_BYTES, size - len(body)))
            await asyncio.sleep(self.piece_s)
        return bytes(body)

    async def _send(self, writer: asyncio.StreamWriter, answer: bytes) -> None:
        for start in range(0, len(answer), PIECE_BYTES):
            writer.write(answer[start : start + PIECE_BYTES])
            await writer.drain()
            await asyncio.sleep(self.piece_s)

    async def _answer(self, asked: Asked) -> Answer:
        if asked.method in self.refusals:
            return self.refusals[asked.method]
        if asked.method == "PUT":
            if asked.key in self.objects:
                return error(412, "PreconditionFailed")
            self.objects[asked.key] = asked.body
            return Answer(headers=ETAG)
        if asked.method == "POST":
            return await self._delete(asked)
        return self._read(asked) if asked.key else self._list(asked)

    async def _delete(self, asked: Asked) -> Answer:
        if self.needs_md5 and "content-md5" not in asked.headers:
            return error(400, "InvalidRequest", "Missing required header: Content-MD5")
        errors = ""
        for key in KEY.findall(asked.body.decode()):
            await asyncio.sleep(self.delete_s)
            if key in self.kept:
                errors += f"<Error><Key>{key}</Key><Code>{self.kept[key]}</Code></Error>"
            else:
                self.objects.pop(key, None)
        return Answer(body=f"<DeleteResult>{errors}</DeleteResult>".encode())

    def _read(self, asked: Asked) -> Answer:
        if asked.method == "GET" and asked.key in self.unreadable:
            return self.unreadable[asked.key]
        stored = self.objects.get(asked.key)
        if stored is None:
            return error(404, "NoSuchKey")
        if (wanted := RANGE.fullmatch(asked.headers.get("range", ""))) is None:
            return Answer(200, stored, ETAG)
        first, last = int(wanted[1]), min(int(wanted[2]), len(stored) - 1)
        told = {"Content-Range": f"bytes {first}-{last}/{len(stored)}", **ETAG}
        return Answer(206, stored[first : last + 1], told)

    def _list(self, asked: Asked) -> Answer:
        after, most = asked.query.get("continuation-token", ""), int(asked.query["max-keys"])
        keys = [key for key in sorted(self.objects) if key > after or not self.tokens]
        page, is_cut = keys[:most], len(keys) > most
        entries = "".join(ENTRY.format(key, len(self.objects[key])) for key in page)
        token = f"<NextContinuationToken>{page[-1]}</NextContinuationToken>" if is_cut else ""
        cut = f"<IsTruncated>{str(is_cut).lower()}</IsTruncated>{token}"
        return Answer(body=f"<ListBucketResult>{cut}{entries}</ListBucketResult>".encode())

    def _encoded(self, asked: Asked, answer: Answer) -> bytes:
        headers, body = dict(answer.headers), answer.body
        if self.lengths:
            headers["Content-Length"] = str(len(body))
        else:
            headers["Transfer-Encoding"] = "chunked"
            pieces = [body[at : at + 1000] for at in range(0, len(body), 1000)]
            body = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in [*pieces, b""])
        lines = [f"HTTP/1.1 {answer.status} Odd", *(f"{name}: {headers[name]}" for name in headers)]
        head = "\r\n".join([*lines, "", ""]).encode()
        return head if asked.method == "HEAD" else head + body
