"""A feature of the cluster was finalised at a level."""

from penstock.wire.definition import Message, int16, string


class FeatureLevelRecord(Message, key=12, versions="0", flexible_from=0):
    name: str = string()
    feature_level: int = int16()
