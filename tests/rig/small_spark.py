"""Settings of Spark sessions in tests, whose JVM lives for seconds to minutes."""

SMALL_SPARK = {
    "spark.driver.memory": "1g",
    # The optimising compiler would take more time than it saves: half of a session's start.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "2",
    "spark.log.level": "ERROR",
}
