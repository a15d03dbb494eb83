"""What an editor asks of job files that somebody is writing: problems, names, explanations, fixes.

`server` speaks the Language Server Protocol; all else knows texts and places only.
"""
