"""From scores to context: `attend`, masks, heads, and the fast paths that never store the m×n
matrix.
"""
