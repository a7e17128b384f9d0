"""The log: what is durable, and how it is written and read.

Produce: log.append -> writer (buffer, seal) -> objects.put -> metadata.commit_object = durable.
Fetch: log.read_tail -> tail; else log.read_store -> reader (its docstring has the map of the rest).
"""
