"""The rules of the cluster: pure functions from a state and a request to a decision."""
