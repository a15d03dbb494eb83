"""The tables of rules for objects that are no Pods, row by row."""
