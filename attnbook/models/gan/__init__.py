"""Self-attention GANs, the DCGAN baseline, and the classifier that judges samples."""
