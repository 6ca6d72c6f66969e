"""The quorum's messages as Apache Kafka's requests and replies: one file per API."""
