"""Sockets, requests and their answers; everything below it is told what to do from here.

Life of a request: network/server -> network/connection (frames in, answers out in order) ->
dispatch (the API table) -> apis/kNN_name.handle -> storage -> back the same way.

    apis/       one handler for each API key; beside it, what several of them share:
                batch_checks, later_appends, produce_answers    of Produce
                fetching, fetch_context, fetch_session, read_failures    of Fetch
                membership -> broker_set -> cluster, leaders    who is there, and leads what
    network/    listeners, connections, TLS, memory for what was sent
    groups/ transactions/ quotas/ security/ configs/ schemas/ telemetry/    what handlers use
    http/       health, metrics, usage
    upkeep/     the process beside the broker that builds, compacts and expires
"""
