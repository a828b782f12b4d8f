"""Run by test_finetuning.py under `torchrun`: a published decoder learns a text.

It is what one would write for a single process, but for its last lines, where each process saves
its own: for each folder that is given.
"""

import os
import sys
from pathlib import Path

import torch

from attnbook import load_decoder
from attnbook.tasks import CharacterWindows
from attnbook.training import fit, language_loss, save_model


def train(folder):
    """The decoder of a folder after six steps, and its losses."""
    model = load_decoder(folder).double()
    ids = torch.randint(3, 40, (200,), generator=torch.Generator().manual_seed(0))
    batches = CharacterWindows(ids, length=8, batch_size=5)
    options = {"optimizer": "AdamW", "learning_rate": 1e-2, "weight_decay": 0.1}
    options |= {"schedule": "cosine", "warmup_steps": 2, "device": "cpu", "progress": False}
    history = fit(model, batches, language_loss, steps=6, **options)
    return model, history.losses


if __name__ == "__main__":
    torch.set_num_threads(1)
    for folder in map(Path, sys.argv[1:]):
        trained, losses = train(folder)
        path = folder / f"rank_{os.environ['RANK']}" / "trained.safetensors"
        path.parent.mkdir()
        save_model(trained, path, losses=repr(losses))
