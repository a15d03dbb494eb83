"""Read the kinds of Kubeflow Trainer v2."""
