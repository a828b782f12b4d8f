"""What stands beside attention in a network: embeddings, norms, residual connections,
feed-forward layers, convolutions.
"""
