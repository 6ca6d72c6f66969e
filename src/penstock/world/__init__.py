"""The ports to clock, disk, network and entropy, and the real ones behind them."""
