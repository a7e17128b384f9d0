"""Where a log is: what lets a Spark job reach it without a broker.

Options of readers and writers, or the environment where they are left out:

    postgres   DSN of the metadata            STREAMHOUSE_POSTGRES
    store      URL of the object store        STREAMHOUSE_STORE
    data       directory of a broker with an embedded Postgres, in place of both

A DSN with a password belongs into the environment or a PGPASSFILE: Spark shows options in plans.
"""

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from storage.postgres.postgres_dsn import check_dsn

if TYPE_CHECKING:
    from storage.objects.port import ObjectStore

POSTGRES: Final = "postgres"
STORE: Final = "store"
DATA: Final = "data"
POSTGRES_VARIABLE: Final = "STREAMHOUSE_POSTGRES"
STORE_VARIABLE: Final = "STREAMHOUSE_STORE"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLocation:
    """Postgres and the object store of one cluster; goes to executors as it is.

    Attributes:
        postgres: DSN; not in the repr, for it may have a password.
        store: URL, as `--store` takes it.
    """

    postgres: str = field(repr=False)
    store: str

    @classmethod
    def of(
        cls, options: Mapping[str, str], environment: Mapping[str, str] = os.environ
    ) -> "LogLocation":
        """Return what options and environment say.

        Raises:
            ValueError: something is missing or cannot be; the message names the option.
        """
        data = options.get(DATA)
        if data is not None:
            if POSTGRES in options or STORE in options:
                raise ValueError("option data stands for postgres and store; leave those out")
            return cls._embedded(Path(data).expanduser().resolve())
        postgres = options.get(POSTGRES) or environment.get(POSTGRES_VARIABLE)
        store = options.get(STORE) or environment.get(STORE_VARIABLE)
        if not postgres or not store:
            raise ValueError(
                f"set the options postgres and store (or {POSTGRES_VARIABLE} and"
                f" {STORE_VARIABLE}), or data to the directory of a broker"
            )
        from storage.objects.open_store import parse_store_url  # noqa: PLC0415 (with what opens stores)

        check_dsn(postgres)
        parse_store_url(store)
        return cls(postgres=postgres, store=store)

    @classmethod
    def _embedded(cls, data: Path) -> "LogLocation":
        directory = data / "postgres"
        if not (directory / "PG_VERSION").exists():
            raise ValueError(f"option data: {data} is no directory of a broker")
        from storage.postgres.postgres_binaries import (  # noqa: PLC0415 (few start with a directory)
            make_socket_directory,
            server_user,
            unix_socket_dsn,
        )

        sockets = make_socket_directory(directory, server_user(directory))
        return cls(postgres=unix_socket_dsn(sockets), store=f"file://{data}/objects")

    @asynccontextmanager
    async def objects(self) -> "AsyncIterator[ObjectStore]":
        """Give the object store; closed afterwards.

        Raises:
            ObjectStoreUnavailable: it cannot be opened.
        """
        from storage.objects.open_store import open_store  # noqa: PLC0415

        store = await open_store(self.store)
        try:
            yield store
        finally:
            await store.close()
