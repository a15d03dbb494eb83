"""Read what commands say: words of a shell, launchers and their options, ssh and its ports."""
