"""Texts drawn from a language model: the distribution they are drawn from, prompts of different
lengths, and when they end.
"""

import pytest
import torch
from refusing import assert_refused

from attnbook import TransformerLM, paper_parts
from attnbook.decoding import sample
from attnbook.tasks import TOKEN_IDS

PAD, BOS, EOS = 0, 1, 2
SIZE = 8


def build(seed=0):
    torch.manual_seed(seed)
    return TransformerLM(
        SIZE, paper_parts(8, 2, 16, dropout=0.0), num_layers=2, token_ids=TOKEN_IDS
    ).double()


def logits_after(model, tokens):
    return model.eval()(torch.tensor([tokens])).logits[0, -1].detach()


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_the_next_token_has_the_probability_that_the_model_gives(temperature):
    model, prompt = build(), [BOS, 5, 4]
    logits = logits_after(model, prompt)
    logits[[PAD, BOS]] = -torch.inf
    wanted = (logits / temperature).softmax(0)
    number = 4000
    drawn = sample(
        model,
        torch.tensor([prompt]).expand(number, 3),
        torch.full((number,), 3),
        1,
        temperature=temperature,
        generator=torch.Generator().manual_seed(0),
    )
    result = (
        torch.bincount(torch.tensor([row[0] if row else EOS for row in drawn]), minlength=SIZE)
        / number
    )
    assert (result - wanted).abs().max() < 0.03 and (result[wanted == 0] == 0).all()


def test_temperature_zero_is_greedy_whatever_the_lengths_of_the_prompts():
    model = build(3)
    prompts = torch.tensor([[1, 5, 4, 6], [1, 3, 0, 0], [1, 7, 3, 0]])
    lengths = torch.tensor([4, 2, 3])
    drawn = sample(model, prompts, lengths, 6, temperature=0.0)
    for row, n in enumerate(lengths.tolist()):
        text = prompts[row, :n].tolist()
        for token in drawn[row]:
            logits = logits_after(model, text)
            logits[[PAD, BOS]] = -torch.inf
            assert token == int(logits.argmax())
            text.append(token)
        if len(drawn[row]) < 6:
            logits = logits_after(model, text)
            logits[[PAD, BOS]] = -torch.inf
            assert int(logits.argmax()) == EOS


def test_it_goes_on_from_one_token_and_repeats_with_its_generator_and_leaves_the_model_as_it_was():
    model = build().train()

    def draw(seed):
        return sample(
            model,
            torch.tensor([[BOS]] * 4),
            torch.ones(4, dtype=torch.long),
            12,
            generator=torch.Generator().manual_seed(seed),
        )

    assert draw(1) == draw(1) != draw(2) and model.training
    assert all(
        EOS not in row and PAD not in row and BOS not in row and len(row) <= 12 for row in draw(1)
    )
    assert any(len(row) < 12 for seed in range(5) for row in draw(seed))  # some end by themselves


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_nan_from_the_model(temperature):
    model = build()
    with torch.no_grad():
        next(model.parameters()).fill_(torch.nan)
    prompt = torch.tensor([[1, 3]]), torch.tensor([2])
    assert_refused("model must give finite", sample, model, *prompt, 3, temperature=temperature)


def test_lengths_of_any_whole_dtype():
    for dtype in (torch.int16, torch.int32):
        given = torch.tensor([[1, 3, 4], [1, 5, 0]]), torch.tensor([3, 2])
        assert sample(build(), given[0], given[1].to(dtype), 4, temperature=0) == sample(
            build(), *given, 4, temperature=0
        )


@pytest.mark.parametrize(
    "change, words",
    [
        ({"max_length": 0}, "max_length"),
        ({"temperature": -1.0}, "temperature"),
        ({"top_k": 0}, "top_k"),
        ({"top_p": 0.0}, "top_p"),
        ({"top_p": 1.1}, "top_p"),
        ({"min_p": -0.1}, "min_p"),
        ({"prompts": [[1, 3]]}, "prompts"),
        ({"lengths": torch.tensor([2.0])}, "lengths"),
        ({"lengths": torch.tensor([0])}, "lengths"),
    ],
)
def test_bad_input_is_named(change, words):
    given = {
        "prompts": torch.tensor([[1, 3]]),
        "lengths": torch.tensor([2]),
        "max_length": 3,
        **change,
    }
    prompts, lengths, most = (given.pop(name) for name in ("prompts", "lengths", "max_length"))
    assert_refused(words, sample, build(), prompts, lengths, most, **given)
