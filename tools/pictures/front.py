"""Draws the picture on the front page: what a small Bahdanau model attends to when it translates
one phrase.

    python tools/pictures/front.py        trains for two minutes on two cores, writes
    _vendor/book/front.png and, for the picture that answers a touch, front.json

The model learns English noun phrases with their French, a task that the book makes itself, so the
true alignment of every word is known; it is framed in the picture."""

import json
from pathlib import Path

import matplotlib

matplotlib.use("agg")
import torch  # noqa: E402

from attnbook import Bahdanau, figures  # noqa: E402
from attnbook.decoding import greedy
from attnbook.tasks import SequenceBatches, collate, make_task  # noqa: E402
from attnbook.training import cosine_decay, fit, token_loss  # noqa: E402

TARGET = Path(__file__).resolve().parents[2] / "_vendor" / "book" / "front.png"
STEPS = 800


def main() -> None:
    task = make_task("phrases", train=20000, valid=0, test=400, seed=0, phrases=(1, 3))
    torch.manual_seed(0)
    model = Bahdanau(len(task.source_vocab), len(task.target_vocab), d_embed=48, hidden_size=96)
    batches = SequenceBatches(task.train, task.source_vocab, task.target_vocab, 64, seed=0)
    fit(
        model,
        batches,
        token_loss,
        steps=STEPS,
        learning_rate=4e-3,
        schedule=cosine_decay(STEPS, 20),
        seed=0,
        progress=False,
        device="cpu",
    )

    # A test phrase of 9 to 11 words, translated right, with the most words that change places.
    def moved(pair):
        return sum(min(p) != t for t, p in enumerate(pair.alignment) if p)

    for pair in sorted((p for p in task.test if 9 <= len(p.source) <= 11), key=moved, reverse=True):
        batch = collate([pair], task.source_vocab, task.target_vocab)
        found = greedy(model, batch.source, batch.lengths, 30, need_weights=True)
        if task.target_vocab.decode(found.tokens[0]) == list(pair.target):
            break
    else:
        raise SystemExit("the model translates none of the phrases: it has not learned")
    assert found.weights is not None
    figures.style()
    picture = figures.alignment(found.weights[0], pair.source, pair.target, gold=pair.alignment)
    part = TARGET.with_name("front.partial.png")
    picture.savefig(part, dpi=130, bbox_inches="tight", metadata={"Software": None})
    part.replace(TARGET)
    shown = {
        "source": list(pair.source),
        "target": list(pair.target),
        "weights": [[round(float(w), 3) for w in row] for row in found.weights[0]],
    }
    TARGET.with_suffix(".json").write_text(json.dumps(shown, ensure_ascii=False) + "\n")
    print(f"{' '.join(pair.source)} -> {' '.join(pair.target)}: {TARGET.name}")


if __name__ == "__main__":
    main()
