"""Sockets, requests and their answers; everything below it is told what to do from here.

Life of a request: server -> connection (frames in, answers out in order) -> dispatch (the API
table) -> apis/kNN_name.handle -> storage -> back the same way.
"""
