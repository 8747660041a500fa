"""A network of PyTorch for PushT, behind a server.

python python/examples/policy_mlp.py mlp.pt --make      # a file with random weights
dp_bench eval --policy remote --env pusht policy.params.command="python python/examples/policy_mlp.py mlp.pt"

For your own network, change MLP and how `policy` makes its input. Needs: pip install torch 'dp_bench[serve]'
"""

from __future__ import annotations

import argparse
import sys

import numpy as np

import dp_bench

try:
    import torch
except ModuleNotFoundError:
    torch = None

N_OBS_STEPS = 2  # observations in a window; n_obs_steps of the evaluation must be the same
N_ACTIONS = 8  # of a chunk; dp_bench executes the first n_action_steps
WORLD = 512.0  # pixels


def make_network() -> torch.nn.Module:
    n_inputs = N_OBS_STEPS * (2 + 9 * 2)  # agent_pos and keypoint
    return torch.nn.Sequential(
        torch.nn.Linear(n_inputs, 128),
        torch.nn.ReLU(),
        torch.nn.Linear(128, N_ACTIONS * 2),
        torch.nn.Sigmoid(),
    )


def load_policy(file: str):
    network = make_network()
    network.load_state_dict(torch.load(file, weights_only=True))
    network.eval()

    @torch.inference_mode()
    def policy(observation: dict[str, np.ndarray]) -> np.ndarray:
        """Actions [N_ACTIONS, 2] in pixels from agent_pos [2, 2] and keypoint [2, 9, 2]."""
        numbers = np.concatenate([observation["agent_pos"].ravel(), observation["keypoint"].ravel()])
        actions = network(torch.from_numpy(numbers / WORLD))
        return WORLD * actions.reshape(N_ACTIONS, 2).numpy()

    return policy


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", help="weights, as torch.save(network.state_dict(), file) leaves them")
    parser.add_argument("--make", action="store_true", help="write the file, with random weights")
    args = parser.parse_args()
    if torch is None:
        sys.exit("policy_mlp.py needs PyTorch: pip install torch")
    torch.set_num_threads(1)  # for a small network, more threads cost more than they give
    if args.make:
        torch.manual_seed(0)
        torch.save(make_network().state_dict(), args.file)
        return
    dp_bench.serve_policy(load_policy(args.file), metadata={"weights": args.file})


if __name__ == "__main__":
    main()
