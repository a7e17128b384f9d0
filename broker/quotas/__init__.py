"""Client quotas (KIP-13, 124, 546, 599, 612), and for how long they mute a connection."""
