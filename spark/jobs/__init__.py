"""Programs: `python -m spark.jobs.NAME --help`, or `streamctl pipeline NAME`."""
