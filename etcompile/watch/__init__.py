"""The watcher: what cannot be decided before a job runs, and nothing else.

Its rules are pure (`deciding` and `rules`) and know no cluster. Around them it is built as
controllers are: reflector, store, work queue, reconciler, leader election.
"""
