"""Whether jobs fit a cluster: what its nodes have free, where Pods may go, and what quotas allow.

Everything here is pure. A `Snapshot` is what a cluster has; `answers.fit` compares a job's Pods
with it, by the rules of the filter plugins of kube-scheduler 1.34.
"""
