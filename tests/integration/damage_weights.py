"""Copies a checkpoint with weights multiplied by 1 + NOISE * (standard normal): a worse policy for tests of the gate.

Usage: damage_weights.py CHECKPOINT COPY NOISE
"""

import hashlib
import json
import pathlib
import random
import shutil
import struct
import sys


def damage(data: bytearray, noise: float) -> int:
    """Changes the half-precision weights of a safetensors file in place and returns their number."""
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    random.seed(0)
    n_damaged = 0
    for name, tensor in header.items():
        if name == "__metadata__" or tensor["dtype"] != "F16":
            continue
        begin, end = (8 + length + offset for offset in tensor["data_offsets"])
        values = struct.unpack(f"<{(end - begin) // 2}e", data[begin:end])
        data[begin:end] = struct.pack(f"<{len(values)}e", *(v * (1 + random.gauss(0, noise)) for v in values))
        n_damaged += len(values)
    return n_damaged


def main() -> None:
    checkpoint, copy, noise = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), float(sys.argv[3])
    copy.mkdir(parents=True)
    for file in [*checkpoint.glob("*.json"), *checkpoint.glob("*.safetensors")]:
        shutil.copy(file, copy)
    weights = copy / "ema.safetensors"
    data = bytearray(weights.read_bytes())
    n_damaged = damage(data, noise)
    if n_damaged < 1e6:
        sys.exit(f"{weights}: expected at least a million half-precision weights, found {n_damaged}")
    weights.write_bytes(data)
    file = copy / "manifest.json"
    manifest = json.loads(file.read_text())
    manifest["files"]["ema.safetensors"]["sha256"] = hashlib.sha256(data).hexdigest()
    del manifest["sha256"]  # its own, over the rest
    manifest["sha256"] = hashlib.sha256(json.dumps(manifest, indent=1, sort_keys=True).encode()).hexdigest()
    file.write_text(json.dumps(manifest, indent=1, sort_keys=True) + "\n")


main()
