"""Models that read documents and stories: hierarchical and feed-forward attention, memory
networks.
"""
