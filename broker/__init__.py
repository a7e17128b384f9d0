"""Sockets, requests and their answers; everything below it is told what to do from here.

Life of a broker: main -> serve_command -> serve_run (one, or several: workers) -> app, which opens
its stores, makes its parts, has its node serve, and in the end takes all of it down in reverse.

Life of a request: network/server -> network/connection (frames in) -> network/request_loop (one
after the other) -> dispatch -> the row of its API in api_table -> apis/kNN_name.handle ->
storage | groups -> coordinator | transactions | topics -> back the same way, in the same order.

    main, serve_command, serve_run, workers    the command; start_failures, start_patience
    config, config_sources, secrets_config     what it is told
    app -> stores, node -> parts               one broker; services: what handlers may use of it
    dispatch, api_table, handlers              who answers; api_guards: what is done around that
    requests, refusals                         what a handler gets, and what it may raise
    apis/       one handler for each API key; beside it, what several of them share:
                batch_checks, later_appends, produce_answers    of Produce
                fetching, fetch_context, fetch_aborted, fetch_session, read_failures    of Fetch
                topics -> topic_news, topic_lookups    a copy of what Postgres says of them
                membership -> broker_set -> cluster, leaders    who is there, and leads what
    network/    listeners, connections, TLS, memory for what was sent
    groups/ transactions/ quotas/ security/ configs/ schemas/ telemetry/    what handlers use
    http/       health, metrics, usage
    upkeep/     the process beside the broker that builds, compacts and expires
"""
