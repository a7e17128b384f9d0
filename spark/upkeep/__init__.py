"""The background work of brokers, spread over Spark's executors: the same functions and leases."""
