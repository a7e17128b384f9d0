"""Builds one broker, runs it, and takes it down in reverse.

Start: Postgres (serve_run.py starts an embedded one) -> metadata, migrated -> object store,
checked to belong to this cluster, and to be no newer than the metadata -> log and writer -> topics
-> listeners -> ready.
Stop, within 5 s: not ready any more -> leave the cluster, and go on for a moment to tell clients
who owns their partitions now -> accept nobody -> seal, upload, commit and answer what was appended
-> close the connections -> let the store tell the rest -> close the stores -> stop the embedded
Postgres.
A task that fails is a bug, but where Postgres was set back, or another broker has taken this one's
place: the broker logs it and ends, so that nothing half alive goes on serving.
"""

import asyncio
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, Final

import structlog

from broker.config import Settings
from broker.configs.broker_configs import BrokerConfig
from broker.configs.start_settings import compare_starts
from broker.garbage import collect_garbage, settle_garbage_collector
from broker.memory_return import return_memory
from broker.network.file_limit import warn_of_few_files
from broker.network.server import Server
from broker.node import Broker, Running
from broker.parts import Parts
from broker.plain_connections import warn_of_plain_connections
from broker.set_back import SetBack
from broker.start_patience import StartPatience
from broker.stores import open_stores
from broker.upkeep.upkeep_order import upkeep_order
from storage.fsck.index_age import check_index_age
from storage.objects.open_store import store_name
from storage.objects.store_traffic import StoreTraffic
from storage.postgres.postgres_dsn import database_name

_HANDOVER_S: Final = 0.6
_DRAIN_S: Final = 2.5
_ANSWER_S: Final = 0.5
_TELL_S: Final = 0.5
_USAGE_S: Final = 0.5

log = structlog.get_logger()


async def serve(
    settings: Settings,
    config: BrokerConfig,
    *,
    dsn: str,
    alone: bool,
    stop: asyncio.Event,
    ready: asyncio.Future[Running],
) -> None:
    """Run a broker on a running Postgres until `stop` is set; `ready` is resolved once it serves.

    If `alone`, nobody else can be using this Postgres: it is embedded, in this process's hands.

    Raises:
        OSError: an address is not free.
        StorageError: a store cannot be used.
    """
    warn_of_plain_connections(dsn, settings.store_url)
    warn_of_few_files(config.max_connections)
    async with AsyncExitStack() as stack:
        traffic = StoreTraffic()
        metadata, objects = await stack.enter_async_context(
            open_stores(dsn, settings.pool, settings.store_url, traffic)
        )
        database = database_name(dsn)
        log.info("stores opened", store=store_name(settings.store_url), postgres=database)
        parts = Parts(
            settings=settings, config=config, metadata=metadata, objects=objects, traffic=traffic
        )
        broker = Broker(settings, parts, upkeep_order(settings, config, dsn))
        stack.push_async_callback(parts.close)
        patience = StartPatience(database)
        await patience.ask(parts.topics.refresh)
        await patience.ask(parts.entity_configs.refresh)
        unclean = config.topic_values["unclean.leader.election.enable"] is True
        set_back = SetBack(parts.entity_configs, accepted=unclean)
        if not unclean and any(parts.topics.all()):  # without topics it finds nothing
            await patience.ask(partial(check_index_age, metadata, objects))
        await patience.ask(set_back.begin)
        server, addresses, where = await broker.bind()
        dispatches = await broker.join(addresses, alone=alone, patience=patience)
        async with set_back.marking(), asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(work) for work in _works(config, parts, server, set_back)]
            await server.serve(dispatches)
            settle_garbage_collector()
            parts.http.serving = True
            ready.set_result(where)
            upkeep = tasks.create_task(broker.run_upkeep())
            running.append(upkeep)
            await stop.wait()
            upkeep.cancel()
            parts.http.serving = False
            if await parts.members.leave():
                await asyncio.sleep(_HANDOVER_S)
            server.stop_accepting()
            await parts.writer.close(_DRAIN_S)
            parts.group_upkeep.close()
            await server.close(_ANSWER_S)
            await asyncio.gather(parts.writer.telling.finish(_TELL_S), parts.usage.close(_USAGE_S))
            for task in running:
                task.cancel()


def _works(
    config: BrokerConfig, parts: Parts, server: Server, set_back: SetBack
) -> list[Coroutine[Any, Any, None]]:
    """Return what goes on as long as the broker serves, or is begun then."""
    return [
        parts.writer.run(),
        parts.log.poll(),
        parts.topics.poll(),
        parts.entity_configs.poll(),
        set_back.follow(),
        parts.members.beat(),
        parts.group_upkeep.run(),
        parts.transaction_upkeep.run(),
        parts.usage.run(),
        parts.security.run(),
        server.sweep(),
        return_memory(),
        collect_garbage(),
        compare_starts(config, parts.entity_configs, lambda: parts.members.current.membership),
    ]
