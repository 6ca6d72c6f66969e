"""Real Kafka clients behind one face, so that one scenario is asked of all of them."""
