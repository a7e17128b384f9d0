"""Sockets: bytes in, frames to dispatch.py, answers out in the order of their requests."""
