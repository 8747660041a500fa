"""How the Python package dp_bench follows gym-pusht: start states, episodes of random actions, images.

python tests/bench/peers/pusht_gymnasium_compare.py [--seeds 10000] [--sequences 60] [--steps 80]
"""

import argparse

import dp_bench
import gym_pusht.envs.pusht as peer
import numpy as np

WALL_MARGIN = 8.0  # px from the centre line of a wall: its radius of 2 px, and the rest as a margin


def compare_resets(n_seeds):
    """The number of seeds whose first observation or infos differ in a bit, with and without a seed."""
    ours, theirs = dp_bench.PushTEnv(), peer.PushTEnv()
    n_different = 0
    for seed in range(n_seeds):
        for given in (seed, None):
            (a, info), (b, peer_info) = ours.reset(seed=given), theirs.reset(seed=given)
            same = a.tobytes() == b.tobytes() and info["block_pose"].tobytes() == peer_info["block_pose"].tobytes()
            n_different += not (same and info["n_contacts"] == peer_info["n_contacts"])
    print(f"resets: {2 * n_seeds} compared bit for bit, {n_different} differ")


def touches_wall(env):
    corners = env.get_keypoints(env._block_shapes)
    return np.min(corners) < 5 + WALL_MARGIN or np.max(corners) > 506 - WALL_MARGIN


def actions_towards_block(random, env):
    """Targets around the block, so that it is pushed, kept for eight steps."""
    target = np.array(env.block.position) + random.uniform(-120, 120, 2)
    return [(target + random.uniform(-10, 10, 2)).astype(np.float32).clip(0, 512) for _ in range(8)]


def compare_sequence(seed, n_steps, uniform):
    """The largest error of the block and of the agent [px], the error at the end, and the wall contacts."""
    ours, theirs = dp_bench.PushTEnv(), peer.PushTEnv()
    ours.reset(seed=seed), theirs.reset(seed=seed)
    random = np.random.default_rng(seed)
    n_wall, n_contacts, pending, block, agent, contacts_differ = 0, 0, [], [], [], 0
    for _ in range(n_steps):
        if not pending:
            pending = (
                [random.uniform(0, 512, 2).astype(np.float32)] if uniform else actions_towards_block(random, theirs)
            )
        action = pending.pop(0)
        _, _, _, _, info = ours.step(action)
        _, _, _, _, peer_info = theirs.step(action)
        block.append(np.abs(info["block_pose"][:2] - peer_info["block_pose"][:2]).max())
        agent.append(np.abs(info["pos_agent"] - peer_info["pos_agent"]).max())
        contacts_differ += info["n_contacts"] != peer_info["n_contacts"]
        n_contacts += peer_info["n_contacts"]
        n_wall += touches_wall(theirs)
    return {
        "seed": seed,
        "max": max(block),
        "end": block[-1],
        "agent": max(agent),
        "wall": n_wall,
        "contacts": n_contacts,
        "contacts_differ": contacts_differ,
    }


def compare_sequences(n_sequences, n_steps, uniform):
    rows = [compare_sequence(seed, n_steps, uniform) for seed in range(n_sequences)]
    kind = "uniform targets" if uniform else "targets around the block"
    print(
        f"\n{n_sequences} sequences of {n_steps} steps, {kind}: {sum(r['contacts'] for r in rows)} steps with contact,"
    )
    print(
        f"n_contacts differs in {sum(r['contacts_differ'] for r in rows)} steps, agent within "
        f"{max(r['agent'] for r in rows):.1e} px"
    )
    for name, chosen in (("all", rows), ("no wall touched", [r for r in rows if r["wall"] == 0])):
        if not chosen:
            continue
        worst = [r["max"] for r in chosen]
        print(
            f"  {name} ({len(chosen)}): block's largest error, median {np.median(worst):.1e} px, 90th percentile "
            f"{np.quantile(worst, 0.9):.1e} px, largest {max(worst):.1e} px"
        )
    for r in sorted(rows, key=lambda r: -r["max"]):
        if r["max"] <= 1e-4:
            break
        print(f"  seed {r['seed']}: {r['max']:.2g} px, {r['end']:.2g} px at the end; {r['wall']} steps near a wall")


def compare_images(n_sequences):
    """Images of the same states, which both reset to."""
    ours, theirs = dp_bench.PushTEnv(obs_type="pixels"), peer.PushTEnv(obs_type="pixels")
    errors, n_equal = [], 0
    for seed in range(n_sequences):
        a, b = ours.reset(seed=seed)[0].astype(int), theirs.reset(seed=seed)[0].astype(int)
        errors.append(np.abs(a - b).mean())
        n_equal += np.array_equal(a, b)
    print(f"\nimages of {n_sequences} starts: {n_equal} equal, mean error {np.mean(errors):.3f} of 255")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10_000)
    parser.add_argument("--sequences", type=int, default=60)
    parser.add_argument("--steps", type=int, default=80)
    args = parser.parse_args()
    compare_resets(args.seeds)
    for uniform in (True, False):
        compare_sequences(args.sequences, args.steps, uniform)
    compare_images(args.sequences)


if __name__ == "__main__":
    main()
