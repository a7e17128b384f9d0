"""The log: what is durable, and how it is written and read.

Produce: log.append -> writer (buffer, seal) -> objects.put -> metadata.commit_object = durable.
Fetch: log.read -> cache (tail, blocks), or reader -> metadata.find_segments, objects.get.
"""
