"""Where student code runs: bubblewrap or a container, with limits on time, memory and disk."""
