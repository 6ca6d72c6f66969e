"""The rules of the cluster: the controller that decides and the image that everyone reads."""
