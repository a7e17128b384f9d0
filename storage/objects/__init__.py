"""The object store port (D3): a directory, S3, memory; paths, tries and health."""
