"""One partition on disk, in Apache Kafka's own file formats."""
