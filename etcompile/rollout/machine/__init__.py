"""The decisions of a rollout: events go in, commands come out.

All decisions are in one function of events, `commands = machine.advance(event, now)`, which neither
waits nor makes requests, so that tests play any order of events without a cluster.

`messages` are the events, the commands and what a rollout comes to; `steps` takes the steps from
state to state, `targets` the objects that are waited for; `reasons` reads off a live object how far
it is. `rollout.executor` carries the commands out.
"""
