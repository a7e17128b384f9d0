"""Kafka's configs of brokers, topics and loggers: their tables, what is set, and changes."""
