"""Access control lists: who may do what to which resource, as Apache Kafka decides it."""
