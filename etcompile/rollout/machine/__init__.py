"""The decisions of a rollout: events go in, commands come out.

A plan is many steps that wait for each other, for threads that write, for objects that become
ready or go away, and for time. What makes that hard is not one of these but their order: an
answer may come before or after the watch has reported the same, a quota may be full for minutes, a
deletion may never end, and somebody may interrupt all of it. So all decisions are here, in one
function of events, which neither waits nor makes requests:

    commands = machine.advance(event, now)

Tests can play any order of events without a cluster, and a rollout that went wrong can be played
again from its events. `rollout.executor` carries the commands out.

`messages` are the events, the commands and what a rollout comes to; `steps` takes the steps from
state to state, `targets` the objects that are waited for; `reasons` reads off a live object how far
it is.
"""
