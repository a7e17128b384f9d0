"""The object store port (D3): a directory, S3; paths, tries and health."""
