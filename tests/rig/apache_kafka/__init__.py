"""Apache Kafka itself: its jars, its broker and its tools, where Java and Maven exist."""
