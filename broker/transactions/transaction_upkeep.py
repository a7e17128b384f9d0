"""What ends transactions that nobody ends, and forgets transactional ids that nobody uses.

Every broker does it: deadlines are by the database's clock, a transaction ends once whoever is
first, and there is no broker whose loss would let a transaction stay open.
"""

import asyncio
import random
from typing import Final

import structlog

from broker.transactions.transactions import OVERDUE, Transactions
from storage.errors import MetadataUnavailable
from storage.metadata.transactions import Producer, TransactionStore, Verdict
from storage.outage import Outage

SWEEP_S: Final = 1.0
FORGET_S: Final = 3600.0
TOGETHER: Final = 1000
AT_A_TIME: Final = 4

log = structlog.get_logger()


class TransactionUpkeep:
    """Runs beside the transactions.

    Args:
        unused_ms: a transactional id without an open transaction is kept for so long
            (transactional.id.expiration.ms).
    """

    def __init__(
        self, *, store: TransactionStore, transactions: Transactions, unused_ms: int
    ) -> None:
        self._store = store
        self._transactions = transactions
        self._unused_ms = unused_ms

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._abort_overdue())
            tasks.create_task(self._forget_unused())

    async def _abort_overdue(self) -> None:
        outage = Outage()
        while True:
            await asyncio.sleep(SWEEP_S)
            try:
                await self.sweep()
                outage.end()
            except MetadataUnavailable as error:
                if outage.take_warning():
                    log.warning("overdue transactions not aborted yet", reason=str(error))

    async def sweep(self) -> None:
        """Abort all transactions that are past their deadlines.

        One that cannot be ended, because somebody holds its rows, is tried again the next time; it
        is not in the way of the others.

        Raises:
            MetadataUnavailable: no answer when it was asked which they are.
        """
        places = asyncio.Semaphore(AT_A_TIME)
        more = True
        while more:
            overdue = await self._store.overdue_transactions(TOGETHER)
            random.shuffle(overdue)  # every broker begins somewhere else
            aborted = await asyncio.gather(*(self._abort(each, places) for each in overdue))
            more = len(overdue) == TOGETHER and any(aborted)

    async def _abort(self, producer: Producer, places: asyncio.Semaphore) -> bool:
        """Return False if it has just ended, by its producer or another broker, or cannot now."""
        async with places:
            try:
                outcome = await self._transactions.end(producer, OVERDUE)
            except MetadataUnavailable as error:
                log.warning(
                    "overdue transaction not aborted yet",
                    transactional_id=producer.transactional_id,
                    reason=str(error),
                )
                return False
            except Exception:  # of one row; it must not leave all others, of all producers, open
                log.exception("bug in the end of a transaction", producer=producer)
                return False
        if outcome.verdict is not Verdict.DONE:
            return False
        log.warning(
            "transaction past its timeout aborted",
            transactional_id=producer.transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
        )
        return True

    async def _forget_unused(self) -> None:
        while True:
            await asyncio.sleep(FORGET_S)
            try:
                gone = await self._store.forget_transactional_ids(self._unused_ms)
            except MetadataUnavailable as error:
                log.warning("unused transactional ids not forgotten yet", reason=str(error))
                continue
            if gone:
                log.info("unused transactional ids forgotten", transactional_ids=gone)
