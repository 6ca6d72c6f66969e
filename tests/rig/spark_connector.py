"""The jars of Spark's own Kafka connector, fetched once by Maven and kept in the user's cache.

Nothing of it is in this repository. `PeerMissing` says why they can't be had.
"""

import re
from pathlib import Path

import pyspark

from rig.apache_kafka.jars import PeerMissing, fetched

VERSION = "4.2.0"
SPARK = "org.apache.spark"
CONNECTOR = "spark-sql-kafka-0-10_2.13"
TOKEN_PROVIDER = "spark-token-provider-kafka-0-10_2.13"
# Not every copy of Maven Central has the token provider of each version. An older one will do:
# nothing of it but the updating of Kafka's settings is used without delegation tokens.
TOKEN_PROVIDER_VERSIONS = (VERSION, "4.0.0")
# Spark's own project names a mirror under this id, which not every network can reach.
MIRROR = "gcs-maven-central-mirror"
CENTRAL = "https://repo.maven.apache.org/maven2"


def connector_jars() -> list[Path]:
    """What a session needs beside Spark's own jars, for `spark.jars`."""
    if pyspark.__version__ != VERSION:
        raise PeerMissing(f"Spark is {pyspark.__version__}, and the connector for {VERSION}")
    brought = {artifact_of(jar) for jar in (Path(pyspark.__file__).parent / "jars").glob("*.jar")}
    return sorted(jar for jar in fetched_jars().glob("*.jar") if artifact_of(jar) not in brought)


def fetched_jars() -> Path:
    errors = []
    for version in TOKEN_PROVIDER_VERSIONS:
        try:
            return fetched(f"spark-connector-{VERSION}", project(token_provider_version=version))
        except PeerMissing as missing:
            errors.append(str(missing))
    raise PeerMissing(errors[0])


def artifact_of(jar: Path) -> str:
    """`kafka-clients` of kafka-clients-3.9.2.jar."""
    return re.sub(r"-\d[^-]*\.jar$", "", jar.name)


def project(*, token_provider_version: str) -> str:
    token_provider = dependency(TOKEN_PROVIDER, token_provider_version)
    return (
        "<project><modelVersion>4.0.0</modelVersion><groupId>penstock.tests</groupId>"
        "<artifactId>spark-connector</artifactId><version>1</version><packaging>pom</packaging>"
        f"<repositories><repository><id>{MIRROR}</id><url>{CENTRAL}</url></repository>"
        "</repositories><dependencyManagement><dependencies>"
        f"{token_provider}</dependencies></dependencyManagement>"
        f"<dependencies>{dependency(CONNECTOR, VERSION)}</dependencies></project>"
    )


def dependency(artifact: str, version: str) -> str:
    return (
        f"<dependency><groupId>{SPARK}</groupId><artifactId>{artifact}</artifactId>"
        f"<version>{version}</version></dependency>"
    )
