"""Says once, at the start, which stores this process may speak to in the clear."""

from urllib.parse import urlsplit

import structlog

from storage.config import S3Config
from storage.objects.open_store import parse_store_url
from storage.postgres.postgres_dsn import is_local, unencrypted_hosts

log = structlog.get_logger()


def warn_of_plain_connections(dsn: str, store_url: str) -> None:
    """Log a warning for each store on another machine that is not reached over TLS."""
    hosts = unencrypted_hosts(dsn)
    if hosts:
        log.warning(
            "postgres may be reached without TLS: records' index and credentials can be read",
            hosts=hosts,
            instead="sslmode=verify-full&sslrootcert=FILE in the DSN",
        )
    place = parse_store_url(store_url)
    if not isinstance(place, S3Config):
        return
    endpoint = urlsplit(place.endpoint)
    if endpoint.scheme == "http" and not is_local(endpoint.hostname or ""):
        log.warning(
            "the object store is reached without TLS: records can be read and changed on the way",
            endpoint=place.endpoint,
            instead="https:// in the endpoint",
        )
