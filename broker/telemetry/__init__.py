"""Clients' own metrics (KIP-714)."""
