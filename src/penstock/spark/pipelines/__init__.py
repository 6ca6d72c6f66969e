"""Pipelines that are ready to run: each a package of steps, a job, a generator and a topology file.

    steps.py       DataFrame to DataFrame, tried on small frames; reads and writes nothing
    job.py         start(spark, place): reads topics, passes the steps, writes topics and tables
    generate.py    events(seed): input as it might really be, the same for the same seed
    topology.toml  the topics it needs, and why they are as they are

`catalogue.py` names them all; `penstock pipeline list | run | generate` is how they are used.
"""
