"""The upkeep process: an interpreter of its own beside the broker's, so that no request waits (D6).

broker/upkeep/upkeep_process.py starts it: its order is the first line of its standard input, its
reports go to its standard output. It is nice to the broker, if it has any patience, and ends at
once when its standard input does, because it was told to or because the broker is no more: all that
it does can be cut off anywhere.
"""

import asyncio
import os
import sys
from dataclasses import replace
from functools import partial
from typing import BinaryIO, Final

import structlog
import uvloop

from broker.configs.broker_configs import read_broker_config
from broker.logs import configure_logs
from broker.memory_return import prepare_memory
from broker.stores import open_stores
from broker.upkeep.giving_way import give_way, take_what_is_idle
from broker.upkeep.upkeep import Upkeep
from broker.upkeep.upkeep_order import UpkeepOrder, read_order
from broker.upkeep.upkeep_report import UpkeepReport
from storage.errors import DatabaseNotSupported, StorageError

NICENESS: Final = 10
CONNECTIONS: Final = 4

log = structlog.get_logger()


def main() -> None:
    """Be the upkeep process."""
    configure_logs()
    reports = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever prints does not spoil a report
    line = sys.stdin.buffer.readline()
    prepare_memory()
    if line:  # else the broker has ended before it said anything
        order = read_order(line)
        if order.upkeep.patience_ms:
            give_way(NICENESS)
            take_what_is_idle()
        sys.exit(uvloop.run(_work(order, reports)))


async def _work(order: UpkeepOrder, reports: BinaryIO) -> int:
    # What can be read here is the end: after its order the broker sends nothing.
    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), os._exit, 0)
    pool = replace(order.pool, pool_size=min(order.pool.pool_size, CONNECTIONS))
    try:
        stores = open_stores(order.dsn, pool, order.store_url, reads_once=True)
        async with stores as (metadata, objects):
            upkeep = Upkeep(
                metadata=metadata,
                objects=objects,
                config=order.upkeep,
                broker_config=read_broker_config(order.set),
            )
            await upkeep.run(partial(_tell, reports))
    except (StorageError, DatabaseNotSupported) as error:
        log.warning("upkeep cannot begin", reason=str(error))
    except ExceptionGroup:
        log.exception("bug in the upkeep process; ending it")
    return 1


def _tell(reports: BinaryIO, report: UpkeepReport) -> None:
    """Send a report; a broker that does not read them holds this process up, and shall."""
    reports.write(report.to_line())
    reports.flush()


if __name__ == "__main__":
    main()
