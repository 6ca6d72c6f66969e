"""The whole node in a simulated world: virtual time, a disk that loses, a network that breaks."""
