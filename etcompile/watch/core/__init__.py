"""The core of the watcher: it observes jobs, decides on each, and acts.

The decisions are pure (`decide` and what it calls) and know no cluster. Around them the core is
built as controllers are: informers, a work queue, a reconciler, a Lease.
"""
