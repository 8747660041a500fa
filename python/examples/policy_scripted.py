"""A scripted policy for PushT, behind a server: the pusher goes to the block's middle.

dp_bench eval --policy remote --env pusht policy.params.command="python python/examples/policy_scripted.py"

The program starts this file, asks it for actions, and ends it. Needs: pip install 'dp_bench[serve]'
"""

import argparse

import numpy as np

import dp_bench

N_ACTIONS = 8  # of a chunk; dp_bench executes the first n_action_steps


def policy(observation: dict[str, np.ndarray]) -> np.ndarray:
    """Actions [N_ACTIONS, 2]: where the pusher should be, in pixels."""
    position = observation["agent_pos"][-1]  # [n_obs_steps, 2], oldest first
    block = observation["keypoint"][-1].mean(axis=0)  # [n_obs_steps, 9, 2]
    fractions = np.linspace(0.0, 1.0, N_ACTIONS + 1)[1:, None]
    return position + fractions * (block - position)


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    dp_bench.serve_policy(policy)
