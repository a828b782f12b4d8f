"""Agents trained by policy gradient on bandits and decision processes, beside policies that know
the distribution of the environments.
"""

from .bernoulli_bandits import BanditSettings, bandit_policies, bandits
from .random_processes import ProcessSettings, fractions_of_optimum, process_policies, processes
from .training import TEST_SEED, make_agent, maximal_return, train_agent

__all__ = [
    "TEST_SEED",
    "BanditSettings",
    "ProcessSettings",
    "bandit_policies",
    "bandits",
    "fractions_of_optimum",
    "make_agent",
    "maximal_return",
    "process_policies",
    "processes",
    "train_agent",
]
