"""Writes safetensors.safetensors and safetensors.json: tensors saved by Python's safetensors and their float64 values.

Run:  python test/golden/make-safetensors.py     (needs torch, safetensors)
"""
import json
import os

import torch
from safetensors.torch import save_file

here = os.path.dirname(os.path.abspath(__file__))
g = torch.Generator().manual_seed(0)
# Every binary16 exponent, both signs, subnormals, zeros, infinities.
half_bits = torch.tensor(
    [0x0000, 0x8000, 0x0001, 0x83FF, 0x0400, 0x3C00, 0xC000, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00] + list(range(0x0155, 0x7C00, 0x0400)),
    dtype=torch.int32,
).to(torch.int16)
tensors = {
    "f32": torch.randn(3, 5, generator=g),
    "f16": half_bits.view(torch.float16),
    "bf16": torch.randn(2, 3, 4, generator=g).to(torch.bfloat16),
    "scalar": torch.tensor(2.5),
    "empty": torch.zeros(0, 4),
    "ids": torch.arange(4, dtype=torch.int64),
}
save_file(tensors, os.path.join(here, "safetensors.safetensors"), metadata={"format": "pt", "note": "é"})


def number(x):
    return x if abs(x) != float("inf") else ("inf" if x > 0 else "-inf")


expected = {
    name: {"shape": list(t.shape), "values": [number(x) for x in t.double().flatten().tolist()]}
    for name, t in tensors.items()
    if t.is_floating_point()
}
with open(os.path.join(here, "safetensors.json"), "w") as f:
    json.dump(expected, f)
