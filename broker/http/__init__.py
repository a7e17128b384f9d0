"""The HTTP port: health, metrics and what the object store is used for."""
