"""Weights as bytes: they can be read back, or an error names what does not fit their config."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from safetensors.torch import load, save
from torch import Tensor
from weightbytes import CONFIG, DATA, TENSORS, read, same, shuffled, small, tampered

from normexp.config.run import DTYPES, MIXERS, QK_NORMS, RunConfig
from normexp.errors import UserError
from normexp.model.network import Network, build
from normexp.schemes.norms import NORMS
from normexp.schemes.schemes import SCHEMES
from normexp.training.trainer import Trainer
from normexp.training.weights import header_of, weights_bytes


@pytest.mark.parametrize("position", SCHEMES)
@pytest.mark.parametrize("norm", ["none", *NORMS])
def test_every_scheme_and_norm_can_be_read_back(position: str, norm: str) -> None:
    config = small(position=position, norm=norm)
    network = shuffled(config)
    stored, again = read(weights_bytes(network, config))
    assert stored == config
    assert same(network, again)
    tokens = torch.arange(8).view(2, 4)
    assert torch.equal(network.eval()(tokens), again.eval()(tokens))


@pytest.mark.parametrize(
    "keys",
    [
        *({"mixer": m} for m in MIXERS),
        *({"qk_norm": q} for q in QK_NORMS),
        *({"dtype": d} for d in DTYPES),
        {"depth": 0},
    ],
)
def test_every_mixer_qk_norm_and_dtype_can_be_read_back(keys: dict[str, Any]) -> None:
    config = small(**keys)
    network = shuffled(config)
    stored, again = read(weights_bytes(network, config))
    assert (stored, same(network, again)) == (config, True)


def test_running_statistics_can_be_read_back() -> None:
    config = small(norm="bn")
    trainer = Trainer(config)
    trainer.step(1, next(trainer.task.batches(0, 4)))
    _, again = read(weights_bytes(trainer.network, config))
    assert torch.equal(again.final_norm.running_mean, trainer.network.final_norm.running_mean)
    assert again.final_norm.running_mean.any()
    assert again.final_norm.num_batches_tracked == 1


def test_a_shared_scalar_is_stored_once_and_read_into_both_branches() -> None:
    config = small(position="rezero")
    network = shuffled(config)
    data = weights_bytes(network, config)
    names = header_of(data, "").tensors
    assert "blocks.1.mixer.branch_out.factor" in names
    assert "blocks.1.ffn.branch_out.factor" not in names
    block = read(data)[1].blocks["1"]
    assert block.ffn.branch_out.factor is block.mixer.branch_out.factor


def test_equal_weights_give_equal_bytes() -> None:
    trainer = Trainer(CONFIG)  # its parameters are views of one buffer
    assert weights_bytes(trainer.network, CONFIG) == weights_bytes(build(CONFIG), CONFIG)
    keys = list(header_of(weights_bytes(build(CONFIG), CONFIG, history="made up"), "").metadata)
    assert keys == ["normexp_config", "normexp_format", "normexp_history", "normexp_numerics", "normexp_run_id"]


@pytest.mark.parametrize(
    ("change", "facts"),
    [
        (lambda t: t.pop("head.weight"), "head.weight | 8×8"),
        (lambda t: [t.pop(name) for name in list(t)[2:]], "blocks.1.mixer.before.weight | 8"),
        (lambda t: t.update({"head.bias": torch.ones(8)}), "head.bias | 8"),
        (
            lambda t: t.update({"final_norm.bias": torch.ones(9)}),
            "final_norm.bias has shape 9 | 8 | depth 2, norm ln, position pre",
        ),
        (lambda t: t.update({"final_norm.bias": torch.ones(())}), "final_norm.bias has shape ()"),
        (lambda t: t.update({"final_norm.bias": torch.ones(8).double()}), "final_norm.bias | F64 | F32 or BF16 or F16"),
        (lambda t: t.update({"evil\x1b[2J": torch.ones(2)}), "evil?[2J | 2"),
    ],
)
def test_the_first_tensor_that_does_not_fit_is_named(change: Callable[[dict[str, Tensor]], object], facts: str) -> None:
    with pytest.raises(UserError) as fault:
        read(tampered(change))
    assert fault.value.complaints[0].startswith("here.safetensors")
    assert all(fact in fault.value.complaints[0] for fact in facts.split(" | "))


def test_a_config_that_does_not_fit_names_the_first_tensor() -> None:
    bare = save(load(DATA))
    with pytest.raises(UserError, match=r"tensor blocks\.1\.ffn\.before\.bias .*norm rms"):
        read(bare, small(norm="rms"))
    with pytest.raises(UserError, match=r"tensor blocks\.3\.mixer\.before\.weight .*depth 9"):
        read(bare, small(depth=9))


@pytest.mark.parametrize(
    ("keys", "fact"),
    [
        ({"position": "lns"}, "position=pre, not lns"),
        ({"heads": 1}, "heads=2, not 1"),
        ({"eps": 1e-3}, "eps=1e-05, not 0.001"),
        ({"norm": "rms"}, "norm=ln, not rms"),
    ],
)
def test_a_config_that_differs_from_the_files_is_rejected(keys: dict[str, Any], fact: str) -> None:
    """Shapes alone do not reveal these differences."""
    with pytest.raises(UserError, match=fact):
        read(DATA, small(**keys))
    assert read(DATA, small(post_share=0.7))[0] == read(DATA)[0], "a key without effect may differ"


def test_a_network_that_cannot_be_built_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def build(config: RunConfig) -> Network:
        raise RuntimeError("you tried to allocate 8000000000 bytes")

    monkeypatch.setattr("normexp.training.weights.build", build)
    with pytest.raises(UserError, match="you tried to allocate 8000000000 bytes"):
        read(DATA)


def test_a_file_without_a_config_needs_one_and_may_have_16_bits() -> None:
    halves = {name: tensor.bfloat16() for name, tensor in TENSORS.items()}
    data = save(halves)
    with pytest.raises(UserError, match="--config"):
        read(data)
    _, network = read(data, CONFIG)
    assert torch.equal(network.head.weight, halves["head.weight"].float())
