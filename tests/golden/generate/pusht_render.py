"""Images of PushT states by gym-pusht, pymunk, pygame and OpenCV, with one change: polygons.

Writes tests/golden/pusht_render.safetensors:
  state  float64 [24, 5]          agent x, y; block x, y, angle
  image  uint8   [24, 96, 96, 3]  what diffusion_policy's PushTEnv showed for it
The demonstrations were recorded with pygame 2.1, whose filled polygons cut the crossing of an edge
and a scan line towards the edge's upper end; pygame 2.6 rounds outwards. `fill_polygon` is 2.1's
rule; everything else is drawn by the installed libraries. The red stroke of a contact between agent
and block is debug draw's, too; states at the edge are drawn without contacts. Prints how far the
image moves with the installed pygame's polygons.
Run: python tests/golden/generate/pusht_render.py
     (gym-pusht 0.1.8, pymunk 6.11.1, pygame 2.6.1, opencv-python 4.14.0, numpy 2.2.6)
"""

import pathlib

import gym_pusht.envs.pusht as peer
import numpy as np
import pygame
from safetensors.numpy import save_file

OUT = pathlib.Path(__file__).resolve().parent.parent / "pusht_render.safetensors"
N_RANDOM = 12
SEED = 7

# from the demonstrations, as numbers
RECORDED_STATES = [
    [278.64066, 114.032936, 222.99382, 381.59903, 3.0079994],
    [158.59158, 350.24127, 249.14897, 247.87134, 0.6825031],
    [116.22679, 133.8668, 176.61362, 236.50763, 2.2284741],
    [263.84351, 320.99466, 319.40665, 291.54688, 0.31055206],
]

EDGE_STATES = [
    [256.0, 256.0, 256.0, 256.0, np.pi / 4],  # on the goal
    [20.5, 21.5, 70.0, 10.0, 0.0],  # upright in the corner, agent at a tie of the rounding
    [490.0, 490.0, 440.0, 500.0, np.pi],
    [8.0, 500.0, 500.0, 256.0, np.pi / 2],  # over the walls
    [256.0, 2.0, 256.0, 506.0, -np.pi / 2],
    [300.0, 300.0, -40.0, 530.0, 1.1],  # mostly outside
    [200.0, 215.0, 200.0, 200.0, 0.7853981],  # the agent on the block
    [100.0, 100.0, 300.0, 200.0, 25.0],  # several turns
]


def fill_polygon(surface, colour, points):
    top, bottom = min(p[1] for p in points), max(p[1] for p in points)
    if top == bottom:
        left, right = min(p[0] for p in points), max(p[0] for p in points)
        surface.fill(colour, (left, top, right - left + 1, 1))
    for y in range(top, bottom + 1 if top < bottom else top):
        crossings = []
        for a, b in zip(points, points[1:] + points[:1]):
            (x1, y1), (x2, y2) = sorted((a, b), key=lambda p: p[1])
            if y1 != y2 and (y1 <= y < y2 or y == y2 == bottom):
                crossings.append(x1 + int((y - y1) * (x2 - x1) / (y2 - y1)))
        crossings.sort()
        for left, right in zip(crossings[::2], crossings[1::2]):
            surface.fill(colour, (left, y, right - left + 1, 1))


def place(state):
    """A new env in this state, at rest and before any contact."""
    env = peer.PushTEnv(obs_type="pixels")
    env._setup()
    env.agent.position = state[:2].tolist()
    env.block.angle = float(state[4])
    env.block.position = state[2:4].tolist()
    for body in (env.agent, env.block):
        env.space.reindex_shapes_for_body(body)
    return env


def random_states(rng):
    """Half of them with the agent at the block. Blocks lie between the walls: pygame clips lines before
    it steps along them, so those that leave the image run a little differently, and contacts of the
    block with a wall are not drawn by dp_bench."""
    states = []
    while len(states) < N_RANDOM:
        state = rng.uniform([20, 20, 0, 0, -np.pi], [492, 492, 512, 512, np.pi])
        env = place(state)
        bounds = [shape.bb for shape in env.block.shapes]
        distance = min(shape.point_query(env.agent.position).distance for shape in env.block.shapes)
        touches = 1 < distance < 14.9
        inside = all(min(b.left, b.bottom) > 9 and max(b.right, b.top) < 502 for b in bounds)
        if inside and (touches if len(states) % 2 else distance > 16):
            states.append(state.tolist())
    return states


def draw(state, find_contacts):
    env = place(state)
    if find_contacts:
        env.space.step(env.dt)  # at rest: nothing moves before contacts are found
    return env._get_img(env._draw(), 96, 96)


def main():
    rng = np.random.default_rng(SEED)
    states = np.array(RECORDED_STATES + random_states(rng) + EDGE_STATES)
    n_with_contacts = len(states) - len(EDGE_STATES)

    def draw_all():
        return np.stack([draw(s, i < n_with_contacts) for i, s in enumerate(states)])

    installed = draw_all()
    installed_polygon = pygame.draw.polygon
    pygame.draw.polygon = fill_polygon
    images = draw_all()
    pygame.draw.polygon = installed_polygon

    print("mean absolute difference of the two polygon rules:",
          np.abs(images.astype(np.int16) - installed).mean())
    save_file({"state": states, "image": images}, OUT,
              metadata={"pygame": pygame.version.ver, "polygons": "pygame 2.1", "seed": str(SEED)})


if __name__ == "__main__":
    main()
