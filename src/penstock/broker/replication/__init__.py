"""What brokers do for each other: followers fetch from leaders, leaders report who is in sync."""
