"""Carry out a plan: write in order, at once where that is possible, and wait with reasons.

    outcome = Rollout(cluster, proposal, proposal.plan, ...).run()

`machine` decides what happens next, and is pure; `executor` has `writer` and `watches` do it.
`dryrun` asks the API server before anything is written. `inventory` writes the
inventory of a job, and `live` reads the objects that are there.
"""
