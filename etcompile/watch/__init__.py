"""The watcher: what cannot be decided before a job runs, and nothing else.

Its rules are pure (`state` in, `actions` out: `deciding` and `rules`) and know no cluster. What is
around them does: `streaming` follows, `observing` remembers, `running` has the loop, `acting` and
`telling` write, `leading` says who may.
"""
