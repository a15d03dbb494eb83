"""Pages in a real browser, for whichever test makes one."""
