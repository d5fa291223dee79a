from pathlib import Path

import torch
from safetensors.torch import save

from normexp.storage.folder_checks import is_whole


def test_a_file_of_weights_is_whole_or_not(tmp_path: Path) -> None:
    data = save({"a": torch.ones(3, 4), "b": torch.zeros(2)}, {"note": "text"})
    path = tmp_path / "weights.safetensors"
    assert not is_whole(path)
    path.write_bytes(data)
    assert is_whole(path)
    for damaged in (b"", data[:4], data[:40], data[:-1], data + b"0", b"{" * 99, b"\x00" * 8 + b"[]"):
        path.write_bytes(damaged)
        assert not is_whole(path), damaged[:20]
