"""The mark of a database that was set back (broker/set_back.py), for jobs that need no broker."""

from collections.abc import Sequence

import asyncpg

from storage.errors import MetadataWentBack


def refuse_set_back(reasons: Sequence[asyncpg.Record]) -> None:
    """Refuse a database by the rows of `cluster_find_set_back`.

    Raises:
        MetadataWentBack: it is marked.
    """
    for row in reasons:
        raise MetadataWentBack(row["reason"])
