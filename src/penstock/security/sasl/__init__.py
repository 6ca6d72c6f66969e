"""SASL: the exchanges by which a client proves who it is, both sides, without I/O."""
