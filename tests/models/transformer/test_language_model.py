"""Documents that are packed into one row are read as if each stood alone."""

import pytest
import torch
from assertions import assert_exact, refusals

from attnbook import (
    TransformerEncoderModel,
    TransformerLM,
    causal_mask,
    decoder_parts,
    document_mask,
)

LENGTHS = (4, 1, 5)
DOCUMENTS = torch.tensor([[0] * 4 + [1] + [2] * 5])
TOKENS = torch.arange(10)[None] * 7 % 11


def model(kind):
    torch.manual_seed(0)
    return kind(11, decoder_parts(16, 4, 24), num_layers=2).double()


def test_the_mask_of_documents_by_hand():
    found = document_mask(torch.tensor([3, 3, 5, 3]))
    assert found.int().tolist() == [[1, 1, 0, 1], [1, 1, 0, 1], [0, 0, 1, 0], [1, 1, 0, 1]]
    blocks = [torch.ones(n, n) for n in LENGTHS]
    assert torch.equal(document_mask(DOCUMENTS)[0], torch.block_diag(*blocks) > 0)


def reads_alone(net, mask):
    """Whether logits are those of each document by itself, and no gradient goes to another."""
    embedded = net.embedding(TOKENS).detach().requires_grad_()
    net.embedding.register_forward_hook(lambda *_: embedded)
    packed = net(TOKENS, mask=mask).logits[0]
    (gradient,) = torch.autograd.grad(packed[5:].square().sum(), embedded)
    net.embedding._forward_hooks.clear()
    alone = [net(part).logits[0] for part in TOKENS.split(LENGTHS, 1)]
    return torch.allclose(packed, torch.cat(alone), atol=1e-10) and not gradient[:, :5].any()


@pytest.mark.parametrize("kind", [TransformerLM, TransformerEncoderModel])
def test_packed_documents_are_read_as_if_alone(kind):
    mask = document_mask(DOCUMENTS)
    assert reads_alone(model(kind), mask)
    joined = DOCUMENTS.clamp(min=1)  # the first two as one
    for wrong in (None, document_mask(joined), mask.new_ones(1, 10, 10), ~mask):
        assert not reads_alone(model(kind), wrong)


def test_a_mask_joins_lengths_and_order():
    mask = document_mask(DOCUMENTS)
    reader, writer = model(TransformerEncoderModel), model(TransformerLM)
    there = torch.arange(10) < 8
    assert_exact(
        reader(TOKENS, torch.tensor([8]), mask=mask).logits[:, :8],
        reader(TOKENS, mask=mask & there).logits[:, :8],
    )
    assert_exact(reader.encode(TOKENS, mask=mask), reader.stack(reader._embed(TOKENS), mask=mask).x)
    assert_exact(
        writer(TOKENS, mask=mask).logits, writer(TOKENS, mask=mask & causal_mask(10)).logits
    )


test_errors_name_the_argument = refusals(
    ("documents", lambda: document_mask(torch.zeros(3))),
    ("documents", lambda: document_mask(torch.tensor(3))),
    ("mask", lambda: model(TransformerLM)(TOKENS, mask=torch.ones(1, 9, 9, dtype=torch.bool))),
)
