"""The recorded runs of captions: figures of a perfect and a silent captioner, and tiny runs."""

import pytest
import torch

from attnbook.models.captioner import caption_loss
from attnbook.tasks import BOS, EOS
from attnbook.tasks.images import scenes
from attnbook.tasks.images.captioned_pictures import PictureBatches
from attnbook.training import fit, load_model_weights
from attnbook_runs.images.captions import caption_weights, describe, make_captioner, pointing

TINY = {"train_pictures": 40, "test_pictures": 20, "steps": 3, "batch_size": 8}


@pytest.mark.parametrize("attention", ["soft", "hard", "none"])
def test_greedy_captions_are_those_of_a_loop(attention):
    vocab, data = scenes.vocabulary(), scenes.scenes(7, seed=0)
    torch.manual_seed(0)
    model = make_captioner(attention, vocab, scenes.GRID).eval()
    said, weights = describe(model, data.pictures, vocab, max_length=9, batch_size=3)
    for k in range(7):
        with torch.no_grad():
            regions = model.encode(data.pictures[k : k + 1])
            state, token, ids, maps = model.start(regions), torch.tensor([BOS]), [], []
            while len(ids) < 9:
                logits, state, alpha = model.step(token, state, regions, need_weights=True)
                logits[:, [0, BOS]] = -torch.inf
                token = logits.argmax(-1)
                if token == EOS:
                    break
                ids.append(int(token))
                maps.append(alpha)
        assert vocab.decode(ids) == said[k]
        if weights is not None:
            torch.testing.assert_close(weights[k], torch.cat(maps)[:, :36], atol=1e-6, rtol=1e-5)
    assert (weights is None) == (attention == "none")


def test_looking_follows_the_given_captions_and_points_where_the_weights_are():
    vocab, data = scenes.vocabulary(), scenes.scenes(9, seed=0)
    torch.manual_seed(0)
    model = make_captioner("soft", vocab, scenes.GRID).train()
    found = caption_weights(model, data, vocab, batch_size=4)
    assert model.training and len(found) == 9 and found[0].shape == (8, 36)
    batch = PictureBatches(data.take([3]), vocab, 1).batch(0)
    wanted = model.eval()(batch.pictures, batch.target_in).weights[0].detach()
    torch.testing.assert_close(found[3], wanted, atol=1e-6, rtol=1e-5)
    rate = pointing(found, data, scenes.GRID)
    gold = data.alignment(scenes.GRID)
    by_hand = [int(w[t].argmax()) in gold[k][t] for k, w in enumerate(found) for t in (1, 2, 5, 6)]
    assert rate == {
        "pointing": pytest.approx(sum(by_hand) / 36, abs=1e-4),
        "pointing_by_chance": round(1 / 36, 4),
    }


def test_coverage_is_paid_for_and_its_weights_have_their_own_name(tmp_path, figures_of):
    """λ = 1 beside the log-probability of a whole caption, as in the paper."""
    plain, covered = (
        figures_of(f"captions-soft{ending}", seed=0, **TINY) for ending in ("", "-coverage")
    )
    assert covered["last_losses"][0] > plain["last_losses"][0] + 0.5
    stored = {path.stem for path in tmp_path.glob("*.safetensors")}
    assert stored == {"captions-soft.seed0", "captions-soft-coverage.seed0"}


@pytest.mark.parametrize("attention", ["soft", "hard", "none"])
def test_a_tiny_run_leaves_figures_and_a_checkpoint(attention, tmp_path, figures_of):
    figures = figures_of(f"captions-{attention}", seed=0, **TINY)
    assert {"exact", "bleu", "cider", "parameters"} <= set(figures)
    assert ("pointing" in figures) == (attention != "none")
    model = make_captioner(attention, scenes.vocabulary(), scenes.GRID)
    weights = tmp_path / f"captions-{attention}.seed0.safetensors"
    assert load_model_weights(model, weights) == {"attention": attention}
    assert weights.stat().st_size < 500_000


def test_soft_attention_learns_the_scenes_and_a_twin_with_flat_weights_does_not():
    """The right model points at what it names; one whose weights ignore the state cannot, however
    long it trains: its weights are flat.
    """
    vocab, test = scenes.vocabulary(), scenes.scenes(100, seed=9, part="test")
    batches = PictureBatches(scenes.scenes(3000, seed=0), vocab, 32)
    rates = []
    for broken, steps in ((False, 300), (True, 10)):
        torch.manual_seed(0)
        model = make_captioner("soft", vocab, scenes.GRID)
        if broken:
            score = model.attention.score
            score.compare = lambda query, projected: projected.tanh().mean(-1)[:, None] * 0
        options = dict(learning_rate=3e-3, progress=False, device="cpu")
        fit(model, batches, caption_loss, steps=steps, **options)
        rates.append(pointing(caption_weights(model, test, vocab), test, scenes.GRID)["pointing"])
    assert rates[0] > 0.7 and rates[1] < 0.1
