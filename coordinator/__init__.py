"""Group coordination as pure state machines (D9): no I/O, no clock, no randomness of their own.

A group gets an event and the time, changes, and returns effects in the order in which they must
happen: `Save` before any `Reply` that tells of what was saved, `ArmTimer` last.
`broker/groups/groups.py` keeps one machine per group that its broker coordinates, feeds it and runs
the effects. It goes on feeding events while a save is under way; the replies after a save wait for
it. If a save fails, or another broker took the group over, the machine is thrown away and made
again from what is saved.

    group.py                                           begin here: a group of either protocol
    config.py, deadlines.py                            limits and times
    events.py, answers.py, refused.py, effects.py, snapshots.py, descriptions.py    the words
    classic*.py, voting.py                             the classic protocol (KIP-394, 345, 429)
    consumer*.py, assignor*.py, subscriptions.py, catalog.py    the consumer protocol (KIP-848)
"""
