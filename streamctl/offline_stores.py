"""Postgres and object store of a cluster, by the options of commands that need no broker."""

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final

import structlog

from storage.config import PostgresConfig
from storage.errors import (
    DatabaseNotSupported,
    MetadataUnavailable,
    ObjectStoreUnavailable,
    StorageError,
)
from storage.log_lines import log_file
from storage.objects.open_store import open_store, parse_store_url
from storage.objects.port import ObjectStore
from storage.objects.store_marker import MARKER
from storage.postgres.migrate import missing_migrations
from storage.postgres.postgres_binaries import (
    EmbeddedPostgresError,
    make_socket_directory,
    server_user,
    unix_socket_dsn,
)
from storage.postgres.postgres_dsn import check_dsn
from storage.postgres.postgres_embedded import EmbeddedPostgres
from storage.postgres.postgres_process import read_pid_file
from streamctl.errors import Failure, UsageError, reason_of

POOL: Final = PostgresConfig(pool_size=4, command_timeout_s=120.0)
_WARNING: Final = 30


@asynccontextmanager
async def open_stores(
    postgres: str | None, store: str | None, data: Path | None, *, is_new: bool = False
) -> AsyncIterator[tuple[str, ObjectStore]]:
    """Give the address of Postgres, and the object store.

    Args:
        postgres: DSN, as --postgres gives it.
        store: URL, as --store gives it.
        data: directory of a broker with an embedded Postgres, as --data gives it.
        is_new: the database is to be filled: nobody may use it, and it is made in --data.

    Raises:
        UsageError: the options do not go together.
        Failure: one of them cannot be used.
    """
    _log_warnings_only()
    if data is not None and postgres is not None:
        raise UsageError("--data and --postgres exclude each other", fix="leave one out")
    if data is None and (postgres is None or store is None):
        raise UsageError(
            "it is not said where Postgres and the object store are",
            fix="give --postgres DSN and --store URL, or --data DIR of a broker without them",
        )
    with as_failures():
        if postgres is not None:
            check_dsn(postgres)
        url = store or f"file://{data}/objects"
        _check_store(url, is_marked=not is_new)
        async with AsyncExitStack() as stack:
            dsn = postgres
            if data is not None:
                dsn = await stack.enter_async_context(_embedded(data / "postgres", is_new=is_new))
            assert dsn is not None, "checked above"
            if not is_new:
                await _check_schema(dsn)
            objects = await open_store(url)
            stack.push_async_callback(objects.close)
            yield dsn, objects


@asynccontextmanager
async def open_postgres(postgres: str | None, data: Path | None) -> AsyncIterator[str]:
    """Give the address of Postgres, for what needs no object store.

    Raises:
        UsageError: the options do not go together.
        Failure: it cannot be used.
    """
    _log_warnings_only()
    if (data is None) == (postgres is None):
        raise UsageError(
            "it is not said where Postgres is" if data is None else "two places are named",
            fix="give either --postgres DSN, or --data DIR of a broker without it",
        )
    with as_failures():
        async with AsyncExitStack() as stack:
            if data is not None:
                dsn = await stack.enter_async_context(_embedded(data / "postgres", is_new=False))
            else:
                assert postgres is not None, "checked above"
                check_dsn(postgres)
                dsn = postgres
            await _check_schema(dsn)
            yield dsn


@contextmanager
def as_failures() -> Iterator[None]:
    """Turn what stores report into what is shown without a traceback."""
    try:
        yield
    except MetadataUnavailable as error:
        raise Failure(str(error), fix="--postgres, or --data, says where it is") from error
    except ObjectStoreUnavailable as error:
        raise Failure(str(error), fix="--store, or --data, says where it is") from error
    except (StorageError, EmbeddedPostgresError, DatabaseNotSupported) as error:
        raise Failure(str(error)) from error
    except PermissionError as error:
        raise Failure(
            f"{error.filename}: {error.strerror}", fix="be the user that the broker runs as"
        ) from error
    except UnicodeError as error:
        raise UsageError(f"--postgres or --store: {reason_of(error)}") from error
    except (ValueError, OverflowError) as error:  # asyncpg does not look at a port
        raise UsageError(str(error)) from error


def _check_store(url: str, *, is_marked: bool) -> None:
    """See that a directory is a store already: opening one makes it, and leaves traces in it.

    Args:
        url: as `open_store`; a bucket is never made.
        is_marked: the store has to have the mark that brokers leave.

    Raises:
        ValueError: as `parse_store_url`.
        Failure: it is none.
    """
    place = parse_store_url(url)
    if not isinstance(place, Path):
        return
    if not place.is_dir() or (is_marked and not (place / MARKER).exists()):
        raise Failure(
            f"{place} is no object store of a cluster",
            fix="name the --data of a broker, or the --store that its brokers are told",
        )


@asynccontextmanager
async def _embedded(directory: Path, *, is_new: bool) -> AsyncIterator[str]:
    """Start the server, and stop it afterwards; one that a broker looks after is used as it is."""
    if not is_new and not (directory / "PG_VERSION").exists():
        raise Failure(
            f"{directory} is no database",
            fix="name the --data of a broker; if its database is lost: streamctl recover",
        )
    server = EmbeddedPostgres(directory)
    try:
        await server.start()
    except EmbeddedPostgresError:
        if is_new or not read_pid_file(directory):
            raise
        yield _socket_dsn(directory)
        return
    try:
        yield server.dsn
    finally:
        await server.stop()


def _socket_dsn(directory: Path) -> str:
    directory = directory.resolve()  # as EmbeddedPostgres does
    return unix_socket_dsn(make_socket_directory(directory, server_user(directory)))


async def _check_schema(dsn: str) -> None:
    missing = await missing_migrations(dsn, POOL)
    if missing:
        raise Failure(
            f"the database lacks {', '.join(missing)}",
            fix="it is empty, or of an older version: start a broker of this version on it first",
        )


def _log_warnings_only() -> None:
    """Keep stdout for results."""
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(_WARNING),
        logger_factory=structlog.WriteLoggerFactory(log_file()),
    )
