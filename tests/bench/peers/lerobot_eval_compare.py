"""lerobot-eval of one policy with random weights, in PushT of dp_bench and in that of gym-pusht: the rewards side by side.

Needs an environment with `pip install ./python ./python/lerobot_env 'lerobot[pusht,diffusion]==0.6.1'`.

python tests/bench/peers/lerobot_eval_compare.py [--episodes 4] [--steps 40]
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

POLICY = ["--policy.type=diffusion", "--policy.device=cpu", "--policy.push_to_hub=false", "--policy.down_dims=[32,64]"]


def evaluate(env, args, folder):
    """The metrics of each episode, and the seconds that the evaluation took."""
    command = [
        pathlib.Path(sys.executable).parent / "lerobot-eval",
        f"--env.type={env}",
        f"--output_dir={folder}/{env}",
    ]
    command += ["--env.obs_type=environment_state_agent_pos", f"--env.episode_length={args.steps}", *POLICY]
    command += ["--policy.num_inference_steps=4", f"--eval.n_episodes={args.episodes}", "--eval.batch_size=1"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    found = json.loads(pathlib.Path(folder, env, "eval_info.json").read_text())
    return found["per_task"][0]["metrics"], found["overall"]["eval_s"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=4)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        ours, our_seconds = evaluate("dp_pusht", args, folder)
        theirs, their_seconds = evaluate("pusht", args, folder)
    for a, b in zip(ours["sum_rewards"], theirs["sum_rewards"], strict=True):
        print(f"sum of rewards {a:.12f} and {b:.12f}, difference {abs(a - b):.1e}")
    print(f"successes equal: {ours['successes'] == theirs['successes']}; {our_seconds:.1f} s and {their_seconds:.1f} s")


if __name__ == "__main__":
    main()
