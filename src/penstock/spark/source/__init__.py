"""The source: ranges of partitions, planned on the driver and read by tasks into Arrow."""
