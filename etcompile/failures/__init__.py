"""Explain why runs fail, from their Pods, and keep a log of failures that outlives the Pods."""
