"""Brokers of one cluster, each with a way to Postgres of its own that a test can take away."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.broker import BrokerProcess, start_broker
from tests.support.lossy_proxy import LossyProxy
from tests.support.postgres import postgres_server, short_directory
from tests.support.wire import WireClient


@dataclass(slots=True, kw_only=True)
class ProxiedBroker:
    """A broker, a client of it, and its way to Postgres."""

    broker: BrokerProcess
    client: WireClient
    postgres: LossyProxy


@asynccontextmanager
async def proxied_broker(
    home: Path, dsn: str, store: str, *settings: str
) -> AsyncIterator[ProxiedBroker]:
    server = postgres_server().directory
    async with AsyncExitStack() as stack:
        directory = stack.enter_context(short_directory())
        proxy = await stack.enter_async_context(LossyProxy.between(directory, server))
        behind = dsn.replace(f"host={server}", f"host={directory}")
        arguments = ("--postgres", behind, "--store", store, *settings)
        broker = await asyncio.to_thread(start_broker, home, *arguments)
        stack.push_async_callback(asyncio.to_thread, broker.stop)
        stack.callback(proxy.cut)
        client = await stack.enter_async_context(await WireClient.connect(broker.bootstrap))
        yield ProxiedBroker(broker=broker, client=client, postgres=proxy)
