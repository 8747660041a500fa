"""A policy with the fault of lerobot#4327, for tests of what finds it: one queue of actions for all episodes.

Each question about the first step clears the queue, and each answer takes the oldest chunk from it. With one episode at a
time it is right: go to the block's middle. With several at once, episodes get chunks that were planned for others.
"""

import collections

import numpy as np

import dp_bench

QUEUED = 2  # chunks that are planned before the first is handed out
N_ACTIONS = 8

queue: collections.deque[np.ndarray] = collections.deque()


def policy(observation, *, step):
    if step == 0:
        queue.clear()
    middle = observation["keypoint"][-1].mean(axis=0)
    while len(queue) < QUEUED:
        queue.append(np.tile(middle, (N_ACTIONS, 1)))
    return queue.popleft()


if __name__ == "__main__":
    dp_bench.serve_policy(policy)
