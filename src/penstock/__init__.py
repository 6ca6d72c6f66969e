"""Penstock: a distributed commit log that speaks the Apache Kafka protocol."""
