"""One concern of the watcher each: from what is known of a job to a ruling."""
