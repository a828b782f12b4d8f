"""The worlds of the book as Gymnasium environments, for agents from elsewhere.

Needs the extra `environments`.
"""

from __future__ import annotations

import torch

from .environments import Worlds

__all__ = ["make_env", "make_vector_env"]


def _gymnasium():
    try:
        import gymnasium
    except ImportError as error:
        raise ImportError(
            'Gymnasium is not installed: pip install "attnbook[environments]"'
        ) from error
    return gymnasium


def make_env(worlds: Worlds):
    """One world as a ``gymnasium.Env``: `reset` draws a new one, and an episode is its whole life.

    Observations are the inputs of the book's agents, ``(d_input,)`` float32, so that last action
    and last reward are in them; ``terminated`` is True with the last step of the world,
    ``info["done"]`` with the last step of an episode inside it.

    Args:
        worlds: such as :class:`~attnbook.tasks.decisions.bandits.Bandits`, for this environment
            alone.

    Raises:
        ImportError: without Gymnasium; says how to install it.
    """
    gymnasium = _gymnasium()

    class WorldEnv(gymnasium.Env):
        metadata = {"render_modes": []}

        def __init__(self):
            self.observation_space, self.action_space = _spaces(gymnasium, worlds)
            self.render_mode = None

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.taken = 0
            return _array(worlds.reset(int(self.np_random.integers(2**31)), 1))[0], {}

        def step(self, action):
            found = worlds.step(torch.tensor([int(action)], device=worlds.device))
            self.taken += 1
            ended = self.taken == worlds.length
            return (
                _array(found.input)[0],
                float(found.reward[0]),
                ended,
                False,
                {"done": bool(found.done[0])},
            )

    return WorldEnv()


def make_vector_env(worlds: Worlds, count: int):
    """``count`` worlds as one ``gymnasium.vector.VectorEnv``. All of them end with the same step;
    then call `reset`.

    Observations ``(count, d_input)`` float32, rewards ``(count,)`` float64, ``terminated`` and
    ``info["done"]`` ``(count,)`` bool.

    Raises:
        ImportError: without Gymnasium; says how to install it.
    """
    gymnasium = _gymnasium()

    class WorldVectorEnv(gymnasium.vector.VectorEnv):
        metadata = {"render_modes": [], "autoreset_mode": gymnasium.vector.AutoresetMode.DISABLED}

        def __init__(self):
            self.num_envs, self.render_mode = count, None
            self.single_observation_space, self.single_action_space = _spaces(gymnasium, worlds)
            self.observation_space, self.action_space = (
                gymnasium.vector.utils.batch_space(space, count)
                for space in (self.single_observation_space, self.single_action_space)
            )

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.taken = 0
            return _array(worlds.reset(int(self.np_random.integers(2**31)), count)), {}

        def step(self, actions):
            found = worlds.step(torch.as_tensor(actions, dtype=torch.int64, device=worlds.device))
            self.taken += 1
            ended = torch.full_like(found.done, self.taken == worlds.length)
            return (
                _array(found.input),
                _array(found.reward).astype("float64"),
                _array(ended),
                _array(torch.zeros_like(ended)),
                {"done": _array(found.done)},
            )

    return WorldVectorEnv()


def _spaces(gymnasium, worlds):
    observation = gymnasium.spaces.Box(-float("inf"), float("inf"), (worlds.d_input,), "float32")
    return observation, gymnasium.spaces.Discrete(worlds.num_actions)


def _array(tensor):
    return tensor.cpu().numpy()
