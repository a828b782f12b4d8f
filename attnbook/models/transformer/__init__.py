"""The Transformer, its blocks and parts, and its relatives."""
