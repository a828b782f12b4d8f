"""Texts that repeat facts: a world for each text, and the least loss that anybody can have."""

import math
import random

import pytest
import torch
from assertions import assert_refused

from attnbook.tasks.text.facts import FactBatches, draw, vocabulary

WORDS = vocabulary().tokens


def test_a_text_tells_one_world_and_says_what_it_told_already():
    batch = draw(20, 100, random.Random(0))
    worlds = []
    for b in range(20):
        words = [WORDS[k] for k in [*batch.target_in[b].tolist(), int(batch.target_out[b, -1])]]
        assert len(words) == 101 and set(words[2::3]) == {"."}
        world = {}
        for place, (thing, quality) in enumerate(zip(words[0::3], words[1::3])):
            at = 3 * place  # the quality is what comes after this word
            assert bool(batch.told[b, at]) == (thing in world)
            assert batch.least[b, at] == pytest.approx(0 if thing in world else math.log(12))
            assert world.setdefault(thing, quality) == quality
        worlds.append(tuple(sorted(world.items())))
    assert len(set(worlds)) == 20
    after = batch.least.view(-1)[torch.tensor([1, 2])]  # a full stop, then a thing
    torch.testing.assert_close(after, torch.tensor([0.0, math.log(12)]))
    assert torch.equal(batch.target_in[:, 1:], batch.target_out[:, :-1])
    assert_refused("length", FactBatches, 0, 4)
