"""What stands in the way of a plan, before anything of it is written.

`writes` tries each write in a dry run of the API server, and `permissions` asks whether who does
the plan may do all of it: what is half done because its second half is refused is worse than what
was not begun. `dryrun` asks already while a plan is made, where only the API server knows whether
two objects differ.
"""
