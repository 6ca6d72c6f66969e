"""What people do on a web shop: to analytics, personalisation, fraud detection and an audit log.

Four queries read one topic, each at its own pace and with a checkpoint of its own, so that none of
them can hold up or break another: sessions, profiles, alerts with dead letters, and the audit log.
Start with `topology.toml`, then `job.py`.
"""
