"""Decoding: greedy, beam search, sampling, pointing."""
