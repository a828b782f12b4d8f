"""Score functions: how well a query matches a key, from dot product to additive, and their
registry.
"""
