import pytest
import torch

from normexp.config.run import QK_NORMS, RunConfig
from normexp.model.network import build
from normexp.model.norms import make_norm
from normexp.model.precision import InFloat32, cast_parameters, logits
from normexp.schemes.norms import NORMS

TOKENS = torch.randint(0, 11, (2, 8), generator=torch.Generator().manual_seed(0))


def config(**keys: object) -> RunConfig:
    return RunConfig(**{"depth": 2, "width": 16, "hidden": 16, "vocab": 11, "seq_len": 8, **keys})


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("norm", ["none", *NORMS])
@pytest.mark.parametrize("norm_dtype", ["float32", "same"])
@pytest.mark.parametrize("qk_norm", QK_NORMS)
def test_activations_have_16_bits_and_weights_32(dtype: str, norm: str, norm_dtype: str, qk_norm: str) -> None:
    run = config(dtype=dtype, norm=norm, norm_dtype=norm_dtype, qk_norm=qk_norm)
    network = build(run)
    seen = {}
    for name, module in network.named_modules():
        module.register_forward_hook(lambda m, i, out, name=name: seen.__setitem__(name, out.dtype))
    output = logits(network, TOKENS, run)
    output.sum().backward()
    assert output.dtype == torch.float32
    narrow = {name for name, kind in seen.items() if kind == getattr(torch, dtype)}
    wide = {f"{name}.norm" for name, module in network.named_modules() if isinstance(module, InFloat32)}
    assert bool(wide) == (norm_dtype == "float32" and (norm != "none" or qk_norm != "none"))
    assert narrow == set(seen) - wide
    assert {p.grad.dtype for p in network.parameters()} == {torch.float32}
    plain = config(norm=norm, qk_norm=qk_norm)
    exact = logits(build(plain), TOKENS, plain)
    assert torch.allclose(output, exact, atol=0.1 * exact.abs().max().item())
    assert not torch.equal(output, exact)


def test_float32_uses_the_plain_network() -> None:
    run = config()
    network = build(run)
    assert torch.equal(logits(network, TOKENS, run), network(TOKENS))


def test_parameters_of_norms_in_float32_are_not_cast() -> None:
    network = build(config(dtype="bfloat16"))
    cast = cast_parameters(network, torch.bfloat16)
    assert cast["blocks.1.mixer.f.out.weight"].dtype == torch.bfloat16
    assert cast["blocks.1.mixer.before.norm.weight"] is network.blocks["1"].mixer.before.norm.weight


class TestPitfallsOfFloat16:
    """A row of zeros, and a row whose squares overflow (above 255.9), in both kinds of norm."""

    def test_l2_norms_of_queries_and_keys_are_computed_in_float32(self) -> None:
        x = torch.full((1, 1, 3, 4), 200.0, dtype=torch.float16)
        output = {}
        for norm_dtype in ("float32", "same"):
            attention = build(config(dtype="float16", qk_norm="l2", norm_dtype=norm_dtype)).blocks["1"].mixer.f
            with torch.no_grad():
                output[norm_dtype] = attention.k_norm(x)
        assert (output["float32"] - 0.5).abs().max() < 1e-3
        assert output["same"].isnan().all()

    def output(self, norm: str, norm_dtype: str, value: float, eps: float) -> torch.Tensor:
        module = make_norm(norm, 16, config(dtype="float16", norm_dtype=norm_dtype, eps=eps))
        x = torch.full((1, 16), value, dtype=torch.float16)
        x[:, ::2] *= -1
        with torch.no_grad():
            return (module if norm_dtype == "float32" else module.half())(x)

    @pytest.mark.parametrize("norm", ["ln", "rms"])
    def test_an_eps_below_the_smallest_float16_divides_by_zero(self, norm: str) -> None:
        assert torch.isnan(self.output(norm, "same", 0.0, 1e-8)).all()
        assert (self.output(norm, "same", 0.0, 1e-5) == 0).all()
        assert (self.output(norm, "float32", 0.0, 1e-8) == 0).all()

    @pytest.mark.parametrize("norm", ["ln", "rms"])
    def test_squares_overflow_in_both_norms(self, norm: str) -> None:
        assert self.output(norm, "same", 300.0, 1e-5).isnan().all()
        assert (self.output(norm, "same", 250.0, 1e-5).abs() - 1).abs().max() < 1e-2
        assert (self.output(norm, "float32", 300.0, 1e-5).abs() - 1).abs().max() < 1e-2
