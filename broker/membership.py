"""Keeps this broker a member of the cluster, and the others' comings and goings known here.

Every HEARTBEAT_S one statement says that this broker is alive and brings the set of live brokers,
judged by the database's clock. So a broker that dies is out of the set, everywhere, within
TIME_TO_LIVE_MS + 2 x HEARTBEAT_S of its last heartbeat, one that stops cleanly within HEARTBEAT_S.
A broker that is gone owns nothing, but stays in the list of brokers that clients are told, for
LINGER_S: librdkafka 2.11 and later drops a broker that is not in the list any more, and can hang
for ever if that was the coordinator of its group and it has not learned of another one yet. (Apache
Kafka lists a dead broker until its session has ended, too, for nine seconds.)

While Postgres does not answer, the last known set stays in force. But if it is this broker alone
that gets no answer, the others have taken over what it owned: they append records of which
consumers here would never hear, and would give away in time what the members of groups here are
told that they may keep. So after CUT_OFF_S, and until Postgres answers, it owns nothing, and says
of what it owned that nobody does. Only the others can know who does, and in which generation: were
they cut off, too, and each named another one, clients would hear of several leaders in one epoch.
librdkafka can stay with the wrong one for ever then.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final
from uuid import UUID

import structlog

from broker.broker_set import BrokerSet
from storage.backoff import Backoff
from storage.errors import IdentityTaken, MetadataUnavailable
from storage.metadata.brokers import BrokerRecord, BrokerStore, Membership
from storage.outage import Outage

HEARTBEAT_S: Final = 0.25
TIME_TO_LIVE_MS: Final = 2_200
LEAVE_S: Final = 1.0
IDENTITY_S: Final = 10.0
LINGER_S: Final = 10.0

CUT_OFF_S: Final = 3.0
"""The others take over after TIME_TO_LIVE_MS, and a session later, 6 s at least, they miss whoever
has not come to them. By then a member's next heartbeat here, within 2 s, has sent it to them; that
this broker notices may take a second."""

log = structlog.get_logger()

Watcher = Callable[[BrokerSet], None]
ListWatcher = Callable[[Sequence[BrokerRecord]], None]


class Members:
    """The live brokers.

    Attributes:
        current: the set in force. This broker is cut off from it if Postgres has not answered for
            CUT_OFF_S, and there are others whom it may.
    """

    def __init__(self, store: BrokerStore, incarnation: UUID) -> None:
        self._store = store
        self._incarnation = incarnation
        self._watchers: list[Watcher] = []
        self._list_watchers: list[ListWatcher] = []
        self._left = False
        self._departed: dict[int, tuple[BrokerRecord, float]] = {}  # until when, by the loop's time
        self._outage = Outage()
        self._answered_s = float("-inf")  # when that was asked which was answered last
        self._asking = asyncio.Lock()  # a heartbeat must not come after the goodbye
        self._known_generation = -1  # the highest of which is known that it was given
        self.current = BrokerSet(Membership(node_id=-1, generation=-1, brokers=()))

    async def join(
        self, addresses: Sequence[str], *, rack: str | None, preferred_node_id: int, alone: bool
    ) -> None:
        """Register; the set is known after it. A database that does not answer is waited for.

        So is the end of another broker that advertises the same address: it may be about to stop,
        or dead and not known to be.

        Raises:
            IdentityTaken: it is alive for IDENTITY_S now.
            DatabaseNotSupported: a newer version has come, which stops this one.
        """
        backoff = Backoff()
        loop = asyncio.get_running_loop()
        taken_since_s: float | None = None
        while True:
            try:
                membership = await self._store.register_broker(
                    self._incarnation,
                    addresses,
                    rack=rack,
                    preferred_node_id=preferred_node_id,
                    alone=alone,
                    time_to_live_ms=TIME_TO_LIVE_MS,
                )
            except MetadataUnavailable as error:
                self._warn(error)
                await backoff.wait()
            except IdentityTaken as error:
                if taken_since_s is None:
                    taken_since_s = loop.time()
                    log.warning("waiting for another broker's end", reason=str(error))
                elif loop.time() - taken_since_s >= IDENTITY_S:
                    raise
                await asyncio.sleep(HEARTBEAT_S)
            else:
                self._answered_s = asyncio.get_running_loop().time()
                self._take(membership)
                return

    def on_change(self, watcher: Watcher) -> None:
        """Call `watcher` with the set in force now, with every new one, and when it is cut off."""
        self._watchers.append(watcher)
        watcher(self.current)

    def on_list(self, watcher: ListWatcher) -> None:
        """Call `watcher` with the brokers to tell clients of, now and after every change.

        A change of the set is one, too, and told of after it.
        """
        self._list_watchers.append(watcher)
        watcher(self._listed())

    async def beat(self) -> None:
        """Send heartbeats until cancelled.

        Raises:
            BrokerDisplaced: another process has registered with this identity, or a newer version
                has come.
        """
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            if not self._left:
                await self._ask(self._send_heartbeat)
                self._note_silence()
            self._forget_departed()

    async def leave(self) -> bool:
        """Tell the others that this broker stops; return whether anybody is there to take over."""
        self._left = True
        mine = self.current.membership.node_id
        with suppress(TimeoutError):  # then the others notice by themselves
            async with asyncio.timeout(LEAVE_S):
                await self._ask(lambda: self._store.deregister_broker(mine, self._incarnation))
        return any(one.node_id != mine for one in self.current.membership.brokers)

    async def _send_heartbeat(self) -> Membership:
        return await self._store.broker_heartbeat(
            self.current.membership.node_id,
            self._incarnation,
            known_generation=self._known_generation,
            time_to_live_ms=TIME_TO_LIVE_MS,
        )

    async def _ask(self, ask: Callable[[], Awaitable[Membership]]) -> None:
        try:
            async with self._asking:
                asked_s = asyncio.get_running_loop().time()
                membership = await ask()
        except MetadataUnavailable as error:
            self._warn(error)
            return
        self._outage.end()
        self._answered_s = asked_s
        if membership.brokers:  # the last one to leave stays the owner of everything to its end
            self._take(membership)

    def _note_silence(self) -> None:
        silent_s = asyncio.get_running_loop().time() - self._answered_s
        is_cut_off = silent_s > CUT_OFF_S and len(self.current.membership.brokers) > 1
        if is_cut_off != self.current.is_cut_off:
            log.warning("cut off from Postgres" if is_cut_off else "not cut off any more")
            self._follow(BrokerSet(self.current.membership, is_cut_off=is_cut_off))

    def _warn(self, error: MetadataUnavailable) -> None:
        if self._outage.take_warning():
            log.warning("no news of other brokers", reason=str(error))

    def _take(self, membership: Membership) -> None:
        current = self.current.membership
        if membership.generation == current.generation and membership != current:
            # Postgres went back, to a standby that lagged, and has given it again since. So that
            # everybody hears of the set that is, the next heartbeat takes it for lost once more.
            self._known_generation = current.generation + 1
        if membership.generation <= current.generation:  # an answer that was overtaken
            return
        self._known_generation = membership.generation
        log.info(
            "brokers changed",
            generation=membership.generation,
            node_id=membership.node_id,
            live=[one.node_id for one in membership.brokers],
        )
        now_s = asyncio.get_running_loop().time()
        alive = {one.node_id for one in membership.brokers}
        for one in self.current.membership.brokers:
            self._departed[one.node_id] = (one, now_s + LINGER_S)
        self._departed = {
            node_id: gone for node_id, gone in self._departed.items() if node_id not in alive
        }
        self._follow(BrokerSet(membership))

    def _follow(self, brokers: BrokerSet) -> None:
        self.current = brokers
        for watcher in self._watchers:
            watcher(brokers)
        self._tell_list()

    def _forget_departed(self) -> None:
        now_s = asyncio.get_running_loop().time()
        lasting = {id_: gone for id_, gone in self._departed.items() if gone[1] > now_s}
        if len(lasting) < len(self._departed):
            self._departed = lasting
            self._tell_list()

    def _tell_list(self) -> None:
        for watcher in self._list_watchers:
            watcher(self._listed())

    def _listed(self) -> list[BrokerRecord]:
        return [*self.current.membership.brokers, *(gone for gone, _ in self._departed.values())]
