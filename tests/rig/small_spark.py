"""Settings of Spark sessions in tests, whose JVM lives for seconds to minutes."""

# The optimising compiler would take more time than it saves: half of a session's start.
SHORT_LIVED_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
SMALL_SPARK = {
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": SHORT_LIVED_JAVA,
    "spark.sql.shuffle.partitions": "2",
    "spark.log.level": "ERROR",
    "spark.ui.enabled": "false",
}
