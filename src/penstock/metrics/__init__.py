"""What a metric is, and how it is asked for: values alone, without what they are taken from."""
