"""Read the kinds of the Kubeflow Training Operator."""
