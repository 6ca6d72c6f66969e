"""The rules of the cluster: pure functions from an image and a request to a decision."""
