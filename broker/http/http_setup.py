"""Wires what a broker's HTTP port answers."""

from collections.abc import Callable, Iterable

from aiohttp import web
from prometheus_client import CollectorRegistry

from broker.http.http_access import HttpAccess
from broker.http.http_port import Check, HttpServer, Source
from broker.http.usage_page import UsagePage
from storage.metadata.port import MetadataStore
from storage.objects.port import ObjectStore
from storage.objects.store_check import check_store
from storage.objects.store_marker import MARKER
from storage.objects.store_traffic import StoreTraffic
from storage.usage_counter import UsageCounter


def make_http(
    registry: CollectorRegistry,
    metadata: MetadataStore,
    objects: ObjectStore,
    traffic: StoreTraffic,
    usage: UsageCounter,
    *,
    sources: Iterable[Source],
    now_ms: Callable[[], int],
    token: str,
) -> HttpServer:
    """Return the server of health, metrics and usage; a broker is ready if both stores answer.

    Metrics are those of the registry and of `sources`. Clients of the port have to bring `token`,
    if it is not empty.
    """
    checks: dict[str, Check] = {
        "postgres": metadata.cluster_id,
        "object store": lambda: check_store(objects, MARKER, traffic),
    }
    page = UsagePage(metadata, usage, now_ms=now_ms)
    server = HttpServer(registry, checks, [web.get("/usage", page.answer)], HttpAccess(token))
    server.sources += sources
    return server
