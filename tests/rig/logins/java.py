"""Apache Kafka's own client, in the JVM that all tests share: its producer and its console."""

from pathlib import Path

from rig.apache_kafka.agent import JavaRefused, KafkaAgent
from rig.clients.interface import Message
from rig.clients.java import told
from rig.logins.login import GIVE_UP_SECONDS, PATIENCE_SECONDS, Login

# It reads tokens from files that its process allows alone.
ALLOWED_FILES = "org.apache.kafka.sasl.oauthbearer.allowed.files"
ALLOWED_URLS = "org.apache.kafka.sasl.oauthbearer.allowed.urls"


class JavaEntering:
    def __init__(self, agent: KafkaAgent, folder: Path) -> None:
        self._agent = agent
        self._folder = folder

    def round_trip(self, bootstrap: str, login: Login, topic: str) -> None:
        [receipt] = self._produce(bootstrap, login, topic)
        assert "error" not in receipt, receipt
        config = self._folder / f"{topic}.properties"
        settings = {**login.java_settings(), "group.id": topic}
        config.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        run = self._agent.run_tool(
            "kafka-console-consumer",
            *("--bootstrap-server", bootstrap, "--topic", topic, "--from-beginning"),
            *("--max-messages", "1", "--timeout-ms", str(PATIENCE_SECONDS * 1000)),
            *("--command-config", str(config)),
        )
        assert run.status == 0 and "record" in run.output.splitlines(), run.output

    def refusal(self, bootstrap: str, login: Login) -> str:
        try:
            [receipt] = self._produce(bootstrap, login, "refused", seconds=GIVE_UP_SECONDS)
        except JavaRefused as refused:
            return str(refused)
        assert "error" in receipt, "not refused"
        return f"{receipt['error']}: {receipt['message']}"

    def _produce(
        self, bootstrap: str, login: Login, topic: str, *, seconds: int = PATIENCE_SECONDS
    ) -> list[dict[str, object]]:
        allow_token(self._agent, login)
        settings = {**login.java_settings(), "max.block.ms": str(seconds * 1000)}
        answer: list[dict[str, object]] = self._agent.ask(
            "produce",
            bootstrap=bootstrap,
            topic=topic,
            messages=[told(Message(value=b"record"))],
            settings=settings,
        )
        return answer


def allow_token(agent: KafkaAgent, login: Login) -> None:
    """Lets the process read the file with the token of the log-in, if it has one."""
    if login.token is not None:
        agent.ask("property", name=ALLOWED_FILES, value=str(login.token))
        agent.ask("property", name=ALLOWED_URLS, value=login.token.as_uri())
