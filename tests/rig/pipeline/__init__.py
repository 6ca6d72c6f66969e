"""A pipeline of real processes that reads, transforms and writes exactly once, and its ordeal.

`ordeal.py` kills the node and the workers and judges what came out; start there. A worker is one
program a client library; `worker.py` is the test's end of it, `witness.py` reads all the time.
"""
