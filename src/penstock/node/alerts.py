"""The alerts of a node: which figures it has, by its roles, and where they are told.

Loaded by a node whose settings ask for it (`penstock.alerts.enable`); others do without it. Start
reading at `broker/alerts/evaluation`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping

from penstock.alerts.machine import Alerts
from penstock.alerts.rules import rules_of
from penstock.broker.alerts.alert_topic import AlertTopic
from penstock.broker.alerts.evaluation import Evaluation
from penstock.broker.alerts.figures import FigureSources
from penstock.broker.alerts.lags_elsewhere import LagsElsewhere
from penstock.broker.alerts.produce_figures import ProduceFigures
from penstock.broker.alerts.record_growth import RecordGrowth
from penstock.broker.alerts.webhook import Webhook
from penstock.broker.controller.controller_link import ControllerLink
from penstock.broker.controller.local_controller import LocalController
from penstock.broker.metrics.cluster import cluster_metrics
from penstock.broker.metrics.compaction import compaction_metrics
from penstock.broker.metrics.groups import group_metrics
from penstock.broker.metrics.logs import directory_metrics
from penstock.broker.metrics.replicas import replica_metrics
from penstock.broker.metrics.transactions import transaction_metrics
from penstock.broker.partitions.log_directories import LogDirectories
from penstock.broker.request.request_stats import RequestStats
from penstock.client.network.cluster import Cluster, ClusterRules
from penstock.client.network.sasl_login import SaslLogin
from penstock.client.network.security import ClientSecurity
from penstock.metadata.image.broker import BrokerImage, Endpoint
from penstock.model.events import ALERTS_EVALUATED
from penstock.model.limit import ALERT_TOPIC_MS_MAX, ALERTS_RESTART_MS, ALERTS_TRACKED_MAX
from penstock.model.settings.listener import SecurityProtocol
from penstock.node.broker_parts import BrokerParts
from penstock.node.config import NodeConfig
from penstock.node.metric_sources import certificate_source
from penstock.world.event_log import tell
from penstock.world.ports import Address, Network, World
from penstock.world.tasks import TaskGroup

logger = logging.getLogger(__name__)


class NodeAlerts:
    """`open` when the node serves; `close` before it takes no more requests."""

    def __init__(
        self,
        *,
        world: World,
        config: NodeConfig,
        group: TaskGroup,
        directories: LogDirectories,
        local: LocalController,
        controller: ControllerLink,
        broker: BrokerParts | None,
        networks: Mapping[str, Network],  # of listeners with TLS, to reach other nodes
        login: SaslLogin | None,  # of this node at brokers
        stats: RequestStats,
    ) -> None:
        self._world = world
        self._config = config
        self._group = group
        self._local = local
        self._networks = networks
        self._login = login
        settings = config.settings.alerts
        self._rules = rules_of(settings)
        growth: RecordGrowth | None = None
        self._elsewhere: LagsElsewhere | None = None
        of_node = [directory_metrics(directories, world.disk)]
        certificates = certificate_source(world, config)
        if certificates is not None:
            of_node.append(certificates)
        if broker is not None:
            services = broker.services
            growth = RecordGrowth(services.partitions, lambda: services.image)
            self._elsewhere = LagsElsewhere(
                client=self._client,
                image=lambda: services.image,
                within_ms=min(
                    settings.penstock_alerts_lag_ms, settings.penstock_alerts_unattended_lag_ms
                ),
                interval_ms=settings.penstock_alerts_interval_ms,
                clock=world.clock,
            )
            of_node += [
                replica_metrics(services.partitions, lambda: services.image),
                group_metrics(services.groups, services.partitions, world.clock),
                transaction_metrics(services.transactions, world.clock),
                compaction_metrics(broker.cleaning),
            ]
        self._topic: AlertTopic | None = None
        if settings.penstock_alerts_topic is not None:
            self._topic = AlertTopic(
                settings.penstock_alerts_topic,
                replicas=config.settings.groups.offsets_topic_replication_factor,
                may_be_alone=broker is not None and broker.offsets_may_be_alone,
                client=self._client,
                controller=controller,
                image=lambda: local.image,
            )
        self._webhook: Webhook | None = None
        if settings.penstock_alerts_webhook_url is not None:
            self._webhook = Webhook(
                settings.penstock_alerts_webhook_url,
                clock=world.clock,
                delivered=None if self._topic is None else self._topic.add,
            )
        self._evaluation = Evaluation(
            alerts=Alerts(self._rules.rules, tracked_max=ALERTS_TRACKED_MAX),
            sources=FigureSources(
                local=local,
                evaluated=self._rules.rules,
                of_node=of_node,
                of_cluster=cluster_metrics(local),
                groups=None if broker is None else broker.services.groups,
                growth=growth,
                elsewhere=self._elsewhere,
                produce=ProduceFigures(
                    stats,
                    failed_reports=_failed(settings.penstock_alerts_topic, broker),
                    window_ms=settings.penstock_alerts_produce_window_ms,
                    now_ms=world.clock.monotonic_ms(),
                ),
                clock=world.clock,
            ),
            topic=self._topic,
            webhook=self._webhook,
            node_id=config.node_id,
            is_broker=broker is not None,
            interval_ms=settings.penstock_alerts_interval_ms,
            clock=world.clock,
        )
        self._tasks: list[asyncio.Task[None]] = []

    def open(self) -> None:
        tell(
            logger,
            ALERTS_EVALUATED,
            rules=len(self._rules.rules),
            left_out=[f"{one.name}: {one.reason}" for one in self._rules.left_out],
        )
        self._start("alerts", self._evaluation.run)
        if self._elsewhere is not None:
            self._start("lags elsewhere", self._elsewhere.run)
        if self._topic is not None:
            self._start("topic of alerts", self._topic.run)
        if self._webhook is not None:
            self._start("webhook of alerts", self._webhook.run)

    def close(self) -> None:
        """What has not been told yet is told by the next start, if it is so still: by the topic, or
        anew if it is not there.
        """
        for task in self._tasks:
            task.cancel()
        self._tasks.clear()

    def _start(self, name: str, run: Callable[[], Awaitable[None]]) -> None:
        self._tasks.append(self._group.start(_kept_running(name, run), name=name))

    def _client(self) -> Cluster | None:
        """As nodes reach brokers. A node that is no broker knows no listener for that by name, and
        takes one of plain text.
        """
        brokers = [one for one in self._local.image.brokers.values() if one.is_usable]
        endpoints = [found for one in brokers if (found := self._endpoint(one)) is not None]
        if not endpoints:
            return None
        first = endpoints[0]
        return Cluster(
            self._networks.get(first.listener, self._world.network),
            self._world.clock,
            [Address(host=one.host, port=one.port) for one in endpoints],
            rules=ClusterRules(
                client_id=f"alerts-{self._config.node_id}",
                security=ClientSecurity(protocol=first.security_protocol, login=self._login),
                connect_ms_max=ALERT_TOPIC_MS_MAX,
                request_ms_max=ALERT_TOPIC_MS_MAX,
            ),
        )

    def _endpoint(self, broker: BrokerImage) -> Endpoint | None:
        listener = self._config.cluster.inter_broker_listener
        if listener is not None:
            return broker.endpoint(listener)
        plain = SecurityProtocol.PLAINTEXT
        return next((one for one in broker.endpoints if one.security_protocol is plain), None)


def _failed(topic: str | None, broker: BrokerParts | None) -> Callable[[], int]:
    """How many batches for the topic the broker has refused or not acknowledged, as a leader."""

    def batches() -> int:
        found = None if topic is None or broker is None else broker.partitions.traffic.get(topic)
        return 0 if found is None else found.failed_produces + found.unacked_produces

    return batches


async def _kept_running(name: str, run: Callable[[], Awaitable[None]]) -> None:
    """Whatever goes wrong with alerts is logged and ends no node: nobody's records depend on it."""
    while True:
        try:
            await run()
        except Exception:
            logger.exception("%s failed", name)
        await asyncio.sleep(ALERTS_RESTART_MS / 1000)
