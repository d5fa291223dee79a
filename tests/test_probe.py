import pytest
import torch

from normexp.nn.network import build
from normexp.run import RunConfig
from normexp.training.probe import forward_signal, gradient_sizes, rms, signal_rows

CONFIG = RunConfig(depth=3, width=16, hidden=16, heads=2, vocab=16)


def test_rms_is_accumulated_in_float64() -> None:
    assert rms(torch.full((10, 10), 1e30)) > 0.99e30
    assert rms(torch.tensor([3.0, 4.0])) == pytest.approx(12.5**0.5)


def test_activation_sizes_are_those_of_the_stream() -> None:
    network = build(CONFIG)
    tokens = torch.randint(0, 16, (4, 16), generator=torch.Generator().manual_seed(0))
    with forward_signal(network) as signal:
        network(tokens)
    sizes = signal["rms"]
    x = network.embedding(tokens) + network.positions.weight
    assert sizes[0, "stream"] == rms(x)
    for layer, block in enumerate(network.blocks.values(), start=1):
        mixed = block.mixer.f(block.mixer.before(x))
        assert sizes[layer, "mixer"] == rms(mixed)
        x = block(x)
        assert sizes[layer, "stream"] == rms(x)
    assert sizes[4, "stream"] == rms(network.final_norm(x))
    assert set(sizes) == {(0, "stream"), (4, "stream")} | {
        (n, p) for n in (1, 2, 3) for p in ("stream", "mixer", "ffn")
    }


def test_gradient_sizes_are_the_norms_of_each_branch() -> None:
    network = build(CONFIG)
    network(torch.zeros(2, 16, dtype=torch.long)).square().sum().backward()
    sizes = gradient_sizes(network)
    expected = sum(p.grad.double().pow(2).sum() for p in network.blocks["2"].ffn.parameters()).sqrt().item()
    assert abs(sizes[2, "ffn"] - expected) < 1e-12 * expected
    rows = signal_rows(7, {"rms": {(0, "stream"): 1.0}, "grad_norm": sizes})
    assert [(row.layer, row.part) for row in rows][:3] == [(0, "stream"), (1, "ffn"), (1, "mixer")]
    assert all(row.step == 7 for row in rows)


def test_hooks_are_removed_also_after_an_error() -> None:
    network = build(CONFIG)
    try:
        with forward_signal(network):
            raise KeyError
    except KeyError:
        pass
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in network.modules())


def test_depth_0_has_a_stream() -> None:
    network = build(RunConfig(depth=0, width=8))
    with forward_signal(network) as signal:
        network(torch.zeros(2, 16, dtype=torch.long))
    assert set(signal) == {"rms"}
    assert set(signal["rms"]) == {(0, "stream"), (1, "stream")}
    assert gradient_sizes(network) == {}
