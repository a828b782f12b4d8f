"""SNAIL: the network, few-shot classification and agents."""
