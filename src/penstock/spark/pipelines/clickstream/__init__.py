"""What people do on a web shop: to analytics, personalisation, fraud detection and an audit log.

Five queries read one topic, each at its own pace and with a checkpoint of its own, so that none of
them can hold up or break another: sessions, profiles, alerts, the audit log, and dead letters.
Start with `topology.toml`, then `job.py`.
"""
