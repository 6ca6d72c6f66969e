"""The Kafka protocol: bytes to messages and back, for every version that is served."""
