"""One broker: takes its addresses, joins its cluster, and serves with its parts (parts.py)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from broker.answered_batches import AnsweredBatches
from broker.broker_set import BrokerSet
from broker.cluster import Cluster
from broker.config import Settings
from broker.dispatch import Dispatch
from broker.network.addresses import Address, parse_address
from broker.network.listeners import Listener, listeners_config, parse_listener
from broker.network.reception import ServerLimits
from broker.network.server import Server
from broker.parts import Parts
from broker.start_patience import StartPatience
from broker.upkeep.upkeep_order import UpkeepOrder
from broker.upkeep.upkeep_process import UpkeepProcess
from storage.configs.topic_config_table import UNLIMITED
from storage.metadata.entity_configs import EntityKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A broker that serves.

    Attributes:
        bootstrap: the first listener's advertised address.
        http: where health and metrics are.
    """

    bootstrap: Address
    http: Address


class Broker:
    """One broker, not serving yet.

    Attributes:
        parts: what it is made of.
    """

    def __init__(self, settings: Settings, parts: Parts, upkeep: UpkeepOrder | None) -> None:
        self.parts = parts
        self._settings = settings
        self._answered = AnsweredBatches(parts.writer, parts.memory)
        self._listeners = self._advertised = ""
        self._upkeep: UpkeepProcess | None = None
        if upkeep is not None:
            compacts = parts.config.current.log_cleaner_enable
            self._upkeep = UpkeepProcess(upkeep, self.parts.registry, compacts=compacts)
            self.parts.http.details["upkeep"] = self._upkeep.state

    async def bind(self) -> tuple[Server, Sequence[Listener], Running]:
        """Take all addresses, so that one in use is known before anything runs."""
        given = [parse_listener(text) for text in self._settings.listen]
        host, port = parse_address(self._settings.http, listener=False)
        http = Address(host, await self.parts.http.listen(host, port))
        self.parts.metrics.watch_memory(lambda: self.parts.memory.used_bytes)
        server = Server(
            memory=self.parts.memory,
            metrics=self.parts.metrics,
            limits=self._limits(),
            rates=self.parts.rates,
            refusals=self.parts.refusals,
            tls=self.parts.security.tls,
        )
        self.parts.entity_configs.watch(EntityKind.CLIENT_QUOTA, lambda _: server.unmute())

        def follow_limits() -> None:
            server.limits = self._limits()

        self.parts.config.watch(follow_limits)
        ports = [await server.bind(one) for one in given]
        reached = [
            Listener(one.protocol, Address(one.address.host, port))
            for one, port in zip(given, ports, strict=True)
        ]
        self._listeners = listeners_config(reached)
        for at, text in enumerate(self._settings.advertise):
            reached[at] = parse_listener(text)
        return server, reached, Running(bootstrap=reached[0].address, http=http)

    async def join(
        self, reached: Sequence[Listener], *, alone: bool, patience: StartPatience
    ) -> list[Dispatch]:
        """Become a member of the cluster; return a dispatch for each listener."""
        await self.parts.members.join(
            [one.registered for one in reached],
            rack=self.parts.config.current.broker_rack,
            preferred_node_id=self._settings.worker,
            alone=alone,
        )
        self._advertised = listeners_config(reached)
        # What was set of another broker that had its node id is gone now.
        await patience.ask(self.parts.entity_configs.refresh)
        self.parts.config.identify(self.parts.members.current.membership.node_id)
        cluster_id = await patience.ask(self.parts.metadata.cluster_id)
        clusters = [
            Cluster(
                cluster_id=cluster_id,
                brokers=self.parts.members.current,
                listener=listener,
                protocol=one.protocol,
            )
            for listener, one in enumerate(reached)
        ]
        for cluster in clusters:
            self.parts.members.on_change(cluster.change)
            self.parts.members.on_list(cluster.tell)
        self.parts.members.on_change(self._brokers_changed)
        self.parts.members.on_list(lambda _: self.parts.topics.answers.clear())
        await patience.ask(self.parts.security.start)
        facts = self._node_facts(self.parts.members.current.membership.node_id)
        return [self.parts.dispatch(cluster, facts) for cluster in clusters]

    def _brokers_changed(self, brokers: BrokerSet) -> None:
        self.parts.group_upkeep.membership_changed(brokers.generation)
        self.parts.log.leaders_changed()
        self.parts.log.wake_waiters()  # who waits here for a partition that moved is to be told
        self._answered.brokers_changed(brokers)

    def _limits(self) -> ServerLimits:
        config = self.parts.config.current
        idle_ms = config.connections_max_idle_ms
        return ServerLimits(
            max_frame_bytes=config.socket_request_max_bytes,
            max_early_bytes=config.security.max_receive_bytes,
            max_connections=config.max_connections,
            max_connections_per_ip=config.max_connections_per_ip,
            max_idle_s=math.inf if idle_ms == UNLIMITED else idle_ms / 1000,
            backlog=config.socket_listen_backlog_size,
        )

    def _node_facts(self, node_id: int) -> Mapping[str, str]:
        return {
            "broker.id": str(node_id),
            "node.id": str(node_id),
            "listeners": self._listeners,
            "advertised.listeners": self._advertised,
        }

    async def run_upkeep(self) -> None:
        """Keep the upkeep process running, if this broker has one, until cancelled."""
        if self._upkeep is not None:
            await self._upkeep.run()
