"""How long 64 ranks wait for the last of them: a replay of recorded episode lengths.

Draws episodes from a finished evaluation and gives them to ranks that run one at a time: dealt before (every 64th, as shards are)
and one after the other, as mpirun's ranks take them. Prints the share of the ranks' time that is work, and the tail: how much longer
than with perfect sharing.

Usage: rank_tail.py RUN/episodes.jsonl [N_RANKS] [N_EPISODES]
"""

import heapq
import json
import random
import sys
from pathlib import Path

lengths = [json.loads(row)["n_steps"] for row in Path(sys.argv[1]).read_text().splitlines()]
n_ranks = int(sys.argv[2]) if len(sys.argv) > 2 else 64
n_episodes = int(sys.argv[3]) if len(sys.argv) > 3 else 10000
draw = random.Random(0)
episodes = [draw.choice(lengths) for _ in range(n_episodes)]

free = [0] * n_ranks
for steps in episodes:
    heapq.heappush(free, heapq.heappop(free) + steps)
dealt = [sum(episodes[i::n_ranks]) for i in range(n_ranks)]
ideal = sum(episodes) / n_ranks
for name, end in (("dealt before", max(dealt)), ("one after the other", max(free))):
    print(f"{name:20} efficiency {100 * ideal / end:.2f} %, tail {100 * (end / ideal - 1):.2f} %")
