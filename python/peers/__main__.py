"""Measures other packages beside dp_bench, in turns, and prints the ratios. `dp_bench bench peers` starts it."""

import argparse
import datetime
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import tables

FOLDER = pathlib.Path(__file__).parent
PEERS = (
    "lerobot_unet",
    "torch_transformer",
    "diffusion_policy_transformer",
    "lerobot_act",
    "training_loops",
    "gym_pusht_env",
    "metaworld_env",
)
UNITS = {"amx_bf16": "AMX", "avx512_bf16": "AVX-512 BF16", "avx512f": "AVX-512", "avx2": "AVX2"}  # by flag, best first
MISSING = 3  # the exit code of measure.py if the peer cannot be measured here


def peer_file(name):
    path = FOLDER / f"{name}.py" if name in PEERS else pathlib.Path(name)
    if not path.is_file():
        sys.exit(f"--peer: expected one of {', '.join(PEERS)} or a Python file, found '{name}'")
    return path


def describe_machine(device):
    if device.startswith("cuda"):
        import torch

        return torch.cuda.get_device_name(device)
    text = pathlib.Path("/proc/cpuinfo").read_text()
    processor = re.search(r"model name\s*: (.*)", text)
    name = processor.group(1) if processor else "unknown processor"
    unit = next((unit for flag, unit in UNITS.items() if re.search(rf"\b{flag}\b", text)), "no AVX2")
    return f"{name}, {unit}, {os.cpu_count()} cores"


def measure(path, options):
    """The peer's result, or None with a message if its packages are missing."""
    with tempfile.TemporaryDirectory() as folder:
        result = pathlib.Path(folder) / "result.json"
        run = subprocess.run(
            [
                sys.executable,
                FOLDER / "measure.py",
                path,
                options.program,
                str(options.rounds),
                str(options.seconds),
                options.device,
                result,
            ],
            check=False,
        )
        if run.returncode == 0:
            return json.loads(result.read_text())
    if run.returncode != MISSING:
        sys.exit(run.returncode if run.returncode > 0 else 1)
    return None


def main():
    parser = argparse.ArgumentParser(prog="python python/peers", description=__doc__)
    parser.add_argument("--program", default="dp_bench", help="ours")
    parser.add_argument("--peer", action="append", help="a name or a Python file; may be repeated (default: all)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each case in each round")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--json", type=pathlib.Path, help="where to write the figures")
    parser.add_argument("--page", type=pathlib.Path, help="only write the tables of these results into a page")
    parser.add_argument("--check", action="store_true", help="with --page: only compare, and fail if it differs")
    parser.add_argument("results", nargs="*", type=pathlib.Path, help="JSON files for --page")
    options = parser.parse_args()
    if options.page:
        tables.write_page(options.page, [json.loads(path.read_text()) for path in options.results], options.check)
        return
    paths = [peer_file(name) for name in options.peer or PEERS]
    result = {
        "format": "dp_bench.bench.peers.1",
        "machine": describe_machine(options.device),
        "date": datetime.date.today().isoformat(),
        "rounds": options.rounds,
        "peers": [],
    }
    for path in paths:
        measured = measure(path, options)
        if measured is None:
            continue
        result["peers"].append(measured)
        print(tables.for_terminal(measured), flush=True)
        if options.json:  # after each, so that nothing is lost
            options.json.write_text(json.dumps(result, indent=1) + "\n")
    if not result["peers"]:
        sys.exit(
            "nothing was measured: install the packages of python/peers/requirements.txt, and name that "
            "interpreter with --python"
        )


if __name__ == "__main__":
    main()
