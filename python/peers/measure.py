"""The rounds of one peer: python measure.py PEER.py PROGRAM ROUNDS SECONDS DEVICE RESULT.json"""

import importlib.metadata
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

MISSING = 3
LEAST_CALLS = 3
WARM_UP_CALLS = 3
MOST_TIMES_SLOWER = 3  # than the fastest way, of a way that is measured


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    peer = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(peer)
    return peer


def wait_for(device):
    if device.startswith("cuda"):
        import torch

        torch.cuda.synchronize()


def milliseconds(call, seconds, device):
    """Of one piece of work, in the mean over `seconds`."""
    for _ in range(WARM_UP_CALLS):  # ours took turns before, in another process
        call()
    wait_for(device)
    n_done, n_calls, start = 0, 0, time.perf_counter()
    while n_calls < LEAST_CALLS or time.perf_counter() - start < seconds:
        n_done += call() or 1
        wait_for(device)
        n_calls += 1
    return 1e3 * (time.perf_counter() - start) / n_done


def promising(ways):
    """The ways that may be the fastest. bf16 on a processor without instructions for it can take 100 times as long."""
    times = {}
    for way, call in ways.items():
        call()  # warms up
        start = time.perf_counter()
        call()
        times[way] = time.perf_counter() - start
    return {way: call for way, call in ways.items() if times[way] <= MOST_TIMES_SLOWER * min(times.values())}


def run_ours(program, ours, seconds, device):
    """Row of `dp_bench bench --json` by piece of work; `ours` may instead be a function that returns milliseconds."""
    if callable(ours):
        return {work: {"ms": ms} for work, ms in ours(program).items()}
    with tempfile.TemporaryDirectory() as folder:
        result = pathlib.Path(folder) / "bench.json"
        command = [program, "bench", *ours, "--repetitions", "1", "--seconds", str(seconds), "--json", str(result)]
        if device != "cpu":
            command += ["--device", device]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        if run.returncode != 0:
            sys.exit(f"{' '.join(command)} failed with {run.returncode}:\n{run.stderr}")
        rows = json.loads(result.read_text())["rows"]
    return {f"{row['work']}, batch {row['batch_size']}" if "batch_size" in row else row["work"]: row for row in rows}


def measure(peer, program, n_rounds, seconds, device):
    cases = {work: promising(ways) for work, ways in peer.cases(program).items()}
    rows = {
        (work, way): {"work": work, "ours": way, "ours_ms": [], "limit_ms": []} for work in cases for way in peer.OURS
    }
    theirs = {work: {way: [] for way in ways} for work, ways in cases.items()}
    for done in range(n_rounds):
        print(f"{peer.TITLE}: round {done + 1} of {n_rounds}", file=sys.stderr, flush=True)
        for work, ways in cases.items():
            for way, call in ways.items():
                theirs[work][way].append(milliseconds(call, seconds, device))
        for way, ours in peer.OURS.items():
            measured = run_ours(program, ours, seconds, device)
            if not measured.keys() & cases.keys():
                sys.exit(f"{peer.TITLE}: dp_bench measured none of {', '.join(cases)} but {', '.join(measured)}")
            for work in cases.keys() & measured.keys():
                rows[work, way]["ours_ms"].append(measured[work]["ms"])
                rows[work, way]["limit_ms"].append(measured[work].get("limit_ms"))
    for row in rows.values():
        row["peer_ms"] = theirs[row["work"]]
    versions = [f"{package} {importlib.metadata.version(package)}" for package in peer.PACKAGES]
    measured = [row for row in rows.values() if row["ours_ms"]]  # not every way does every piece of work
    return {"title": peer.TITLE, "peer": ", ".join(versions), "rows": measured}


def main():
    path, program, n_rounds, seconds, device, result = sys.argv[1:]
    os.environ["DPB_PEER_DEVICE"] = device
    sys.path.insert(0, str(pathlib.Path(__file__).parent))
    try:
        peer = load(pathlib.Path(path))
    except ImportError as error:
        print(f"{pathlib.Path(path).stem} is not measured: {error}", file=sys.stderr)
        sys.exit(MISSING)
    if device != "cpu" and getattr(peer, "CPU_ONLY", False):
        print(f"{peer.TITLE} is not measured: it is for the CPU", file=sys.stderr)
        sys.exit(MISSING)
    measured = measure(peer, program, int(n_rounds), float(seconds), device)
    pathlib.Path(result).write_text(json.dumps(measured))


if __name__ == "__main__":
    main()
