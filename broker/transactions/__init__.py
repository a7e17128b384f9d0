"""Transactions and producer ids (KIP-98, KIP-360, KIP-890)."""
