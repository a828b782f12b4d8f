"""A published decoder is trained on two processes by `torchrun`, as on one."""

import ast

import pytest
import torch
from processes import free_port, launch
from scripts import finetune

from attnbook import load_decoder
from attnbook.training import load_model_weights

transformers = pytest.importorskip("transformers", minversion="5.0")


SIZES = {
    "GPT2": {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 32},
    "Llama": {
        "hidden_size": 16,
        "intermediate_size": 24,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
    },
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Published decoders with random weights, each with what two processes made of it."""
    made = {}
    for name, sizes in SIZES.items():
        config = getattr(transformers, f"{name}Config")(
            vocab_size=40, bos_token_id=None, eos_token_id=None, **sizes
        )
        kind = getattr(transformers, name + ("LMHeadModel" if name == "GPT2" else "ForCausalLM"))
        torch.manual_seed(0)
        made[name] = tmp_path_factory.mktemp(name)
        kind(config).save_pretrained(made[name])
    # an address, as a machine without a network may not know itself by its name
    launcher = ["torch.distributed.run", "--master_addr", "127.0.0.1"]
    launcher += ["--master_port", str(free_port()), "--nproc_per_node", "2"]
    launch(launcher, finetune.__file__, *map(str, made.values()))
    return made


@pytest.mark.parametrize("name", SIZES)
def test_two_processes_of_torchrun_train_a_decoder_as_one_does(folders, name):
    folder = folders[name]
    alone, losses = finetune.train(folder)
    start, ranks = load_decoder(folder).double().state_dict(), []
    for rank in range(2):
        model = load_decoder(folder).double()
        metadata = load_model_weights(model, folder / f"rank_{rank}" / "trained.safetensors")
        assert ast.literal_eval(metadata["losses"]) == pytest.approx(losses, abs=1e-10)
        ranks.append(model.state_dict())
    for name, weight in alone.state_dict().items():
        assert torch.equal(ranks[0][name], ranks[1][name])
        torch.testing.assert_close(ranks[0][name], weight, atol=1e-10, rtol=0)
    assert max((start[name] - ranks[0][name]).abs().max() for name in start) > 0.01
