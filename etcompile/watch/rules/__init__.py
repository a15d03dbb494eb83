"""One concern of the watcher each: from what is known of a job to a ruling.

What a rule calls `now` is the time in seconds since 1970.
"""
