"""The upkeep process: builds, compacts, expires and sweeps beside the broker (D6)."""
