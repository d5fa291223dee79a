"""Networks compared with torch's layers, and initialization."""

import math

import pytest
import torch
from torch import nn

from normexp.config.run import KEYS, RunConfig
from normexp.model import branches
from normexp.model.block import Block
from normexp.model.network import INITS, Network, build, layer_of

NORM_TYPES = (nn.LayerNorm, nn.RMSNorm)


def norm_modules(network: nn.Module) -> list[str]:
    return [name for name, module in network.named_modules() if isinstance(module, NORM_TYPES)]


def torch_block(block: Block, config: RunConfig) -> nn.TransformerEncoderLayer:
    """Return torch's layer with the weights of the block."""
    layer = nn.TransformerEncoderLayer(
        config.width,
        config.heads,
        config.hidden,
        dropout=0.0,
        activation=config.activation,
        layer_norm_eps=config.eps,
        batch_first=True,
        norm_first=config.position == "pre",
        dtype=torch.float64,
    )
    door = "before" if config.position == "pre" else "after"
    sources = {
        "self_attn.in_proj_": "mixer.f.qkv.",
        "self_attn.out_proj.": "mixer.f.out.",
        "linear1.": "ffn.f.fc1.",
        "linear2.": "ffn.f.fc2.",
        "norm1.": f"mixer.{door}.",
        "norm2.": f"ffn.{door}.",
    }
    parameters = dict(block.named_parameters())
    layer.load_state_dict(
        {name + kind: parameters[own + kind].detach() for name, own in sources.items() for kind in ("weight", "bias")}
    )
    return layer


@pytest.mark.parametrize("position", ["pre", "post"])
@pytest.mark.parametrize("activation", ["gelu", "relu"])
def test_a_block_agrees_with_torchs_encoder_layer(position: str, activation: str) -> None:
    config = RunConfig(depth=1, position=position, activation=activation, width=32, hidden=48)
    torch.manual_seed(0)
    block = Block(config, 1).double()
    for parameter in block.parameters():
        nn.init.normal_(parameter, std=0.3)
    x_btd = torch.randn(3, 10, 32, dtype=torch.float64)
    mask = nn.Transformer.generate_square_subsequent_mask(10, dtype=torch.float64)
    theirs = torch_block(block, config)(x_btd, src_mask=mask, is_causal=True)
    assert (block(x_btd) - theirs).abs().max() < 1e-12


def test_the_choices_of_keys_agree_with_the_tables() -> None:
    from normexp.model.branches import MIXERS, QK_NORMS
    from normexp.model.norms import MODULES
    from normexp.training.optimizers import OPTIMIZERS, SCHEDULES

    def words(key: str) -> set[str]:
        choices = KEYS[key].choices
        assert choices is not None
        return set(choices())

    assert {"none", *MODULES} == words("norm")
    assert set(MIXERS) == words("mixer")
    assert set(QK_NORMS) == words("qk_norm")
    assert set(INITS) == words("init")
    assert set(OPTIMIZERS) == words("optimizer")
    assert set(SCHEDULES) == words("schedule")


def test_without_residual_there_is_no_skip_path() -> None:
    config = RunConfig(depth=1, width=8, hidden=8, residual=False, position="post")
    block = Block(config, 1)
    with torch.no_grad():
        for parameter in block.mixer.f.parameters():
            parameter.zero_()
    x_btd = torch.randn(2, 3, 8)
    assert block.mixer(x_btd, x_btd).abs().max() == 0


def test_an_explicit_final_norm_is_independent_of_the_norm() -> None:
    assert norm_modules(build(RunConfig(depth=2, norm="none", final_norm="ln"))) == ["final_norm"]
    assert norm_modules(build(RunConfig(depth=2, norm="ln", final_norm="none"))) == [
        f"blocks.{layer}.{branch}.before" for layer in (1, 2) for branch in ("mixer", "ffn")
    ]


class TestInit:
    def weights(self, **keys: object) -> dict[str, torch.Tensor]:
        return dict(build(RunConfig(**{"depth": 8, "width": 64, **keys})).named_parameters())

    @pytest.mark.parametrize(
        ("init", "qkv", "out", "fc1", "fc2"),
        [
            ("xavier", math.sqrt(2 / 256), math.sqrt(2 / 128), math.sqrt(2 / 192), math.sqrt(2 / 192)),
            ("xavier_split", math.sqrt(2 / 128), math.sqrt(2 / 128), math.sqrt(2 / 192), math.sqrt(2 / 192)),
            ("torch", 1 / math.sqrt(3 * 64), 1 / math.sqrt(3 * 64), 1 / math.sqrt(3 * 64), 1 / math.sqrt(3 * 128)),
            ("unit", 1 / 8, 1 / 8, 1 / 8, 1 / math.sqrt(128)),
            ("small", 0.02, 0.02 / 4, 0.02, 0.02 / 4),
        ],
    )
    def test_standard_deviations(self, init: str, qkv: float, out: float, fc1: float, fc2: float) -> None:
        weights = self.weights(init=init)
        names = {"mixer.f.qkv": qkv, "mixer.f.out": out, "ffn.f.fc1": fc1, "ffn.f.fc2": fc2}
        for name, std in names.items():
            assert weights[f"blocks.2.{name}.weight"].std().item() == pytest.approx(std, rel=0.05)
            bias = weights[f"blocks.2.{name}.bias"]
            bound = 1 / math.sqrt(weights[f"blocks.2.{name}.weight"].shape[1]) if init == "torch" else 0.0
            assert 0.9 * bound <= bias.abs().max().item() <= bound

    def test_init_only_affects_the_blocks(self) -> None:
        first, second = self.weights(init="small"), self.weights(init="torch")
        for name in ("embedding.weight", "positions.weight", "head.weight"):
            assert (first[name] == second[name]).all()
        assert first["embedding.weight"].std().item() == pytest.approx(1, rel=0.05)
        assert first["positions.weight"].std().item() == pytest.approx(0.1, rel=0.1)
        assert first["head.weight"].abs().max().item() == pytest.approx(1 / 8, rel=0.01)

    def test_networks_share_the_weights_of_common_parameters(self) -> None:
        deep, shallow = self.weights(norm="none"), self.weights(depth=3, position="post", norm="rms")
        common = deep.keys() & shallow.keys()
        assert len(common) == 3 * 8 + 3
        assert all((deep[name] == shallow[name]).all() for name in common)
        assert (deep["head.weight"] != self.weights(seed=1)["head.weight"]).any()

    def test_init_gain_scales_the_weights_of_blocks(self) -> None:
        plain, gained = self.weights(), self.weights(init_gain=0.5)
        name = "blocks.1.ffn.f.fc1.weight"
        assert torch.allclose(gained[name], 0.5 * plain[name])
        assert (gained["head.weight"] == plain["head.weight"]).all()

    def test_building_keeps_torchs_random_state(self) -> None:
        torch.manual_seed(3)
        expected = torch.rand(4)
        torch.manual_seed(3)
        build(RunConfig(depth=2))
        assert (torch.rand(4) == expected).all()


def test_layers_are_counted_from_1() -> None:
    network = Network(RunConfig(depth=3, norm="ln", position="pre"))
    layers = {name: layer_of(name, 3) for name, _ in network.named_parameters()}
    assert layers["embedding.weight"] == layers["positions.weight"] == 0
    assert layers["blocks.1.mixer.f.qkv.weight"] == 1
    assert layers["blocks.3.ffn.f.fc2.bias"] == 3
    assert layers["final_norm.weight"] == layers["head.weight"] == 4


@pytest.mark.parametrize("scale", [1.0, 1e-3])
def test_attention_by_formula_agrees_with_the_fused_kernel(scale: float, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    q, k, v, upstream = (torch.randn(2, 3, 7, 5, dtype=torch.float64, requires_grad=True) for _ in range(4))
    results = []
    for longest in (64, 6):
        monkeypatch.setattr(branches, "LONGEST", longest)
        y = branches.attend(q, k, v, scale)
        results.append((y, *torch.autograd.grad(y, (q, k, v), upstream)))
    for formula, fused in zip(*results, strict=True):
        assert torch.allclose(formula, fused, rtol=1e-9, atol=1e-12)


def test_large_logits_do_not_break_the_gradient_of_attention() -> None:
    """The float32 gradient agrees with float64 even if the rounding of logits exceeds 1."""
    torch.manual_seed(1)
    q, k, v, upstream = (torch.randn(1, 1, 16, 16) for _ in range(4))
    grads = []
    for dtype in (torch.float32, torch.float64):
        leaf = (3e4 * q).to(dtype).requires_grad_()
        y = branches.attend(leaf, (3e4 * k).to(dtype), v.to(dtype), None)
        grads.append(torch.autograd.grad((y * upstream.to(dtype)).sum(), leaf)[0])
    assert grads[0].isfinite().all()
    assert float((grads[0] - grads[1]).abs().max()) <= 1e-3 * max(1.0, float(grads[1].abs().max()))
