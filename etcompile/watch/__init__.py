"""The watcher: what cannot be decided before a job runs, and nothing else.

Its rules are pure (`job_view` in, `actions` out: `deciding` and `rules`) and know no cluster. What
is around them is built as controllers are: `reflector` lists and watches, `store` keeps what it
saw, `workqueue` holds the jobs to look at, `controller` takes them out, `reconciler` looks at one,
`action_executor` sends requests by `object_control`, `event_recorder` reports, `ledger` remembers
what failed and what was reported, `leader_election` says who may act.
"""
