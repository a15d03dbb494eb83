"""Decide what a rollout does: events go in, commands come out.

`commands = machine.advance(event, now)` neither waits nor makes requests, so that tests play any
order of events without a cluster. `messages` are the events and commands; `steps` takes the steps
from state to state, `targets` the objects that are waited for; `reasons` says how far a live object
is.
"""
