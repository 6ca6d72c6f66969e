"""Settings that name a class of Apache Kafka's security, such as one that checks passwords.

No class is loaded here. What Apache Kafka's own classes do is done, so their names are accepted; a
node that ignored any other would let in whom that class keeps out.
"""

from collections.abc import Mapping
from types import MappingProxyType

from penstock.model.settings.of_listener import LISTENER_PREFIX
from penstock.model.settings.setting import InvalidSetting

_SECURITY = "org.apache.kafka.common.security."
_OAUTH = f"{_SECURITY}oauthbearer."
# By setting, the classes that change nothing; the first is what to use.
ACCEPTED: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "principal.builder.class": (f"{_SECURITY}authenticator.DefaultKafkaPrincipalBuilder",),
        "sasl.client.callback.handler.class": (
            f"{_SECURITY}authenticator.SaslClientCallbackHandler",
            f"{_OAUTH}internals.OAuthBearerSaslClientCallbackHandler",
            f"{_SECURITY}scram.internals.ScramSaslClientCallbackHandler",
        ),
        "sasl.login.callback.handler.class": (
            f"{_OAUTH}OAuthBearerLoginCallbackHandler",
            f"{_OAUTH}secured.OAuthBearerLoginCallbackHandler",
            f"{_OAUTH}internals.unsecured.OAuthBearerUnsecuredLoginCallbackHandler",
        ),
        "sasl.login.class": (
            f"{_SECURITY}authenticator.DefaultLogin",
            f"{_SECURITY}kerberos.KerberosLogin",
            f"{_OAUTH}internals.OAuthBearerRefreshingLogin",
        ),
        "sasl.oauthbearer.jwt.retriever.class": (
            f"{_OAUTH}DefaultJwtRetriever",
            f"{_OAUTH}ClientCredentialsJwtRetriever",
            f"{_OAUTH}FileJwtRetriever",
            f"{_OAUTH}JwtBearerJwtRetriever",
        ),
        "sasl.oauthbearer.jwt.validator.class": (
            f"{_OAUTH}DefaultJwtValidator",
            f"{_OAUTH}BrokerJwtValidator",
        ),
        # Tokens are checked by the keys of their issuer, also where Kafka would take unsigned ones.
        "sasl.server.callback.handler.class": (
            f"{_OAUTH}OAuthBearerValidatorCallbackHandler",
            f"{_OAUTH}secured.OAuthBearerValidatorCallbackHandler",
            f"{_OAUTH}internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler",
            f"{_SECURITY}authenticator.SaslServerCallbackHandler",
            f"{_SECURITY}plain.internals.PlainServerCallbackHandler",
            f"{_SECURITY}scram.internals.ScramServerCallbackHandler",
        ),
        "security.providers": (),
        "ssl.engine.factory.class": (
            f"{_SECURITY}ssl.DefaultSslEngineFactory",
            f"{_SECURITY}ssl.CommonNameLoggingSslEngineFactory",  # it only logs
        ),
    }
)


def refuse_custom_classes(values: Mapping[str, str]) -> None:
    """InvalidSetting for the first class that would have to be loaded, of a node or a listener."""
    for name in sorted(values):
        accepted = ACCEPTED.get(_without_listener(name))
        text = values[name].strip()
        if accepted is None or not text or text in accepted:
            continue
        own = f", or be {accepted[0]}" if accepted else ""
        raise InvalidSetting(
            name=name, value=text, expected=f"No class is loaded here: it must be left out{own}"
        )


def _without_listener(name: str) -> str:
    """The setting that a name ends with, whichever listener and mechanism it is for."""
    if not name.startswith(LISTENER_PREFIX):
        return name
    return next((setting for setting in ACCEPTED if name.endswith(f".{setting}")), name)
