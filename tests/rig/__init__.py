"""What tests stand on: brokers in their own processes, real clients, the source tree."""
