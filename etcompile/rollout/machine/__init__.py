"""The decisions of a rollout: what is heard goes in, what is to be done comes out.

A plan is many steps that wait for each other, for threads that write, for objects that become
ready or go away, and for time. What makes that hard is not one of these but their order: an
answer may come before or after the watch has told the same, a quota may be full for minutes, a
deletion may never end, and somebody may interrupt all of it. So all decisions are here, in one
function of what was heard, which neither waits nor asks anybody:

    commands = machine.advance(event, now)

Tests can play any order of events without a cluster, and a rollout that went wrong can be played
again from what it heard. The `executor` beside this package carries the commands out.

`messages` is what can be heard and done, `outcome` what is told of it; `steps` takes the steps from
state to state (`states`), and `readiness` the objects that are waited for (`targets`); `reasons`
reads off a live object how far it is.
"""
