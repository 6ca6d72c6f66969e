"""The checklist of `penstock doctor`: what a cluster shows, and what is wrong with it.

`gather` asks a cluster by the public protocol, `checklist` judges what was seen. The judges are
pure functions, one file for each group of them.
"""
