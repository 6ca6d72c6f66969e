"""A client of the protocol: sans-IO connection, producer, consumer, admin."""
