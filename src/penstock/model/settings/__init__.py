"""Every setting of topics and brokers: its name, type, default, bounds and what it is for."""
