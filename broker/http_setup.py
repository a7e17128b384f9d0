"""Wires what a broker's HTTP port answers."""

from collections.abc import Callable

from aiohttp import web
from prometheus_client import CollectorRegistry

from broker.http import Check, HttpServer
from broker.usage_page import UsagePage
from storage.metadata import MetadataStore
from storage.objects import ObjectStore
from storage.store_check import check_store
from storage.store_marker import MARKER
from storage.store_traffic import StoreTraffic
from storage.usage_counter import UsageCounter


def make_http(
    registry: CollectorRegistry,
    metadata: MetadataStore,
    objects: ObjectStore,
    traffic: StoreTraffic,
    usage: UsageCounter,
    *,
    now_ms: Callable[[], int],
) -> HttpServer:
    """Return the server of health, metrics and usage; a broker is ready if both stores answer."""
    checks: dict[str, Check] = {
        "postgres": metadata.cluster_id,
        "object store": lambda: check_store(objects, MARKER, traffic),
    }
    page = UsagePage(metadata, usage, now_ms=now_ms)
    return HttpServer(registry, checks, [web.get("/usage", page.answer)])
