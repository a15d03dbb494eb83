"""The decisions of a rollout: events go in, commands come out.

Steps wait for each other, for threads that write, for objects that become ready or go away, and
for time, in any order. So all decisions are in one function of events, which neither waits nor
makes requests, and tests play any order of events without a cluster:

    commands = machine.advance(event, now)

`messages` are the events, the commands and what a rollout comes to; `steps` takes the steps from
state to state, `targets` the objects that are waited for; `reasons` reads off a live object how far
it is. `rollout.executor` carries the commands out.
"""
