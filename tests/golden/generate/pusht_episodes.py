"""Episodes of gym-pusht (pymunk): free motion, pushes, the inner corner of the T, and walls.

Writes tests/golden/pusht_episodes.safetensors. Of every case:
  <case>.state     float64 [t + 1, 10]  the start, then the state after each action: agent position and
                                        velocity, block pose and velocity (px, px/s, rad, rad/s)
  <case>.action    float32 [t, 2]       target of the agent
  <case>.coverage  float64 [t]          after each action
  <case>.contacts  uint8   [t, 3]       most contact points in a substep: of the agent, of walls; and
                                        whether agent and walls touched the block in the same substep
  <case>.forgetful float64 [t + 1, 3]   block poses without pymunk's memory, of cases where it matters
  <case>.pixel     uint16  [n]          where the last image differs from `background`: y * 96 + x
  <case>.colour    uint8   [n, 3]       ... and its colours there
and
  background       uint8   [96, 96, 3]  what all images share
  reset.asked      float64 [r, 5]       states given to reset(options={"reset_to_state": ...})
  reset.state      float64 [r, 10]      the states after these resets
The block's velocity is that of its centre of gravity with the bias velocity that takes overlap away;
pymunk does not show the latter, so both are taken from where the next substep moves the block.
pymunk remembers the impulses of contacts for three substeps. It forgets them when the shapes of the
block leave the space and come back before each substep.
Polygons of images are filled by pygame 2.1's rule, see pusht_render.py.
A second run gives the same file up to rounding: coverages to 1e-15, poses to 1e-13.
Run: python tests/golden/generate/pusht_episodes.py
     (gym-pusht 0.1.8, pymunk 6.11.1, pygame 2.6.1, opencv-python 4.14.0, numpy 2.2.6)
"""

import pathlib
from importlib import metadata

import gym_pusht.envs.pusht as peer
import numpy as np
import pygame
from pusht_render import fill_polygon
from safetensors.numpy import save_file

OUT = pathlib.Path(__file__).resolve().parent.parent / "pusht_episodes.safetensors"
SEED = 11  # of the directed cases
N_RANDOM = 12
N_FAST = 6
# Seeds of random episodes in which the agent loses the block and touches it again within three
# substeps, while it draws back. pymunk then still counts the old impulse, and the contact pulls.
RETURNING = {False: (23, 68, 85, 121), True: (24, 36, 49, 136)}  # by `fast`
N_RESETS = 24
SIZE = 96
PACE = 30.0  # pixels that a target lies ahead of the agent: the pace of the demonstrations

# middle, outward normal and half of the length of each side of the block, in its frame
SIDES = {
    "top": ((0, 0), (0, -1), 60),
    "left_end": ((-60, 15), (-1, 0), 15),
    "right_end": ((60, 15), (1, 0), 15),
    "under_left": ((-42, 30), (0, 1), 15),
    "under_right": ((42, 30), (0, 1), 15),
    "stem_left": ((-15, 85), (-1, 0), 32),
    "stem_right": ((15, 85), (1, 0), 32),
    "stem_end": ((0, 120), (0, 1), 15),
}
# outward normal of each wall
WALLS = {"left": (-1, 0), "top": (0, -1), "right": (1, 0), "bottom": (0, 1)}
WALL_FACES = (7.0, 504.0)


class Recorder(peer.PushTEnv):
    """Writes down an episode. Counts contacts and measures the block's velocity in every substep."""

    def __init__(self, forgetful=False):
        super().__init__(obs_type="pixels")
        self.forgetful = forgetful

    def _setup(self):
        super()._setup()
        step = self.space.step

        def watched_step(dt):
            if self.forgetful:
                shapes = list(self.block.shapes)
                self.space.remove(*shapes)
                self.space.add(*shapes)
            before = self._cog()
            step(dt)
            self.block_velocity = (self._cog() - before) / dt  # of the substep before
            self._count_contacts()

        self.space.step = watched_step
        self.contacts = np.zeros(3, np.uint8)
        self.actions, self.states, self.coverages, self.all_contacts = [], [], [], []

    def _cog(self):
        cog = self.block.local_to_world(self.block.center_of_gravity)
        return np.array([cog.x, cog.y, self.block.angle])

    def _count_contacts(self):
        points = {"agent": 0, "walls": 0}

        def count(arbiter):
            by_agent = any(shape.body is self.agent for shape in arbiter.shapes)
            points["agent" if by_agent else "walls"] += len(arbiter.contact_point_set.points)

        self.block.each_arbiter(count)
        now = [points["agent"], points["walls"], bool(points["agent"] and points["walls"])]
        self.contacts = np.maximum(self.contacts, np.array(now, np.uint8))

    def place(self, agent, block):
        """At rest, before any contact."""
        self._setup()
        self.agent.position = tuple(map(float, agent))
        self.block.angle = float(block[2])
        self.block.position = tuple(map(float, block[:2]))
        for body in (self.agent, self.block):
            self.space.reindex_shapes_for_body(body)

    def write_state(self):
        """The block's velocity is filled in by the next substep."""
        self.states.append([*self.agent.position, *self.agent.velocity, *self.block.position,
                            self.block.angle, 0.0, 0.0, 0.0])

    def play(self, target):
        """One action. The target [px] is rounded to float32 before it is used."""
        action = np.asarray(target, np.float32)
        self.contacts[:] = 0
        step = self.space.step

        def first_substep(dt):
            step(dt)
            self.states[-1][7:10] = self.block_velocity
            self.space.step = step

        self.space.step = first_substep
        self.coverages.append(self.step(action.astype(np.float64))[4]["coverage"])
        self.actions.append(action)
        self.all_contacts.append(self.contacts.copy())
        self.write_state()

    def finish(self):
        """The tensors of the case, with the image of the last state."""
        image = self._get_img(self._draw(), SIZE, SIZE)
        self.space.step(self.dt)
        self.states[-1][7:10] = self.block_velocity
        pixel = np.flatnonzero((image != background()).any(axis=2))
        return {
            "state": np.array(self.states),
            "action": np.array(self.actions),
            "coverage": np.array(self.coverages),
            "contacts": np.array(self.all_contacts),
            "pixel": pixel.astype(np.uint16),
            "colour": image.reshape(-1, 3)[pixel],
        }


def forgetful_poses(states, actions):
    env = Recorder(forgetful=True)
    env.place(states[0, :2], states[0, 4:7])
    env.write_state()
    for action in actions:
        env.play(action)
    return np.array([state[4:7] for state in env.states])


def background():
    """Goal and walls, with agent and block out of the image."""
    env = peer.PushTEnv(obs_type="pixels")
    env._setup()
    env.agent.position = (-2000, -2000)
    env.block.position = (-2000, 3000)
    return env._get_img(env._draw(), SIZE, SIZE)


def towards(env, goal, pace=PACE):
    way = np.asarray(goal) - np.array(env.agent.position)
    length = np.linalg.norm(way)
    return np.array(env.agent.position) + way * (min(1.0, pace / length) if length else 0.0)


def follow(env, goals, pace=PACE, wait=0):
    """Moves through the goals at this pace, and stays at the last one for `wait` actions."""
    for goal in goals:
        for _ in range(60):
            if np.linalg.norm(np.asarray(goal) - np.array(env.agent.position)) < 6:
                break
            env.play(towards(env, goal, pace))
    for _ in range(wait):
        env.play(goals[-1])


def touches_wall(env):
    return bool(env.all_contacts) and env.all_contacts[-1][1] > 0


def has_free_start(env):
    """Agent apart from the block, block apart from the walls."""
    bounds = [shape.bb for shape in env.block.shapes]
    inside = all(min(b.left, b.bottom) > 12 and max(b.right, b.top) < 499 for b in bounds)
    distance = min(shape.point_query(env.agent.position).distance for shape in env.block.shapes)
    return inside and distance > 20


def random_episode(seed, fast, n_steps):
    """A start of gym-pusht and aims drawn around the block; ends early where the block touches a wall.
    Slow: from a random side through the block at the pace of the demonstrations. Fast: the aim itself
    is the target, so that the agent crosses the block at up to 900 px/s."""
    env = Recorder()
    rng = np.random.default_rng([SEED, seed])
    env.reset(seed=seed)
    env.write_state()
    aims = []
    is_free = has_free_start(env)
    while is_free and len(env.actions) < n_steps:
        if not aims:
            cog = env._cog()[:2]
            out = cog - 256
            angle = rng.uniform(-np.pi, np.pi)
            if np.linalg.norm(out) > 50:  # back to the middle
                angle = np.arctan2(out[1], out[0]) + rng.uniform(-0.5, 0.5)
            side = np.array([np.cos(angle), np.sin(angle)])
            offset = rng.uniform(-60, 60) * np.array([-side[1], side[0]])
            aims = [cog + offset + 90 * side, cog + offset - 60 * side]
        if np.linalg.norm(aims[0] - np.array(env.agent.position)) < 8:
            aims.pop(0)
            continue
        env.play(aims[0] if fast else towards(env, aims[0]))
        if touches_wall(env):
            break
    return env


def episode_before_walls(seed, fast):
    env = random_episode(seed, fast, 60)
    return random_episode(seed, fast, len(env.actions) - 1) if touches_wall(env) else env


def returning_cases():
    for fast, seeds in RETURNING.items():
        for seed in seeds:
            yield f"return_{'fast' if fast else 'slow'}_{seed}", episode_before_walls(seed, fast)


def random_cases(name, count, fast):
    """Episodes in which the agent works at the block for a while."""
    seed = 0
    while count > 0:
        env = episode_before_walls(seed, fast)
        if sum(c[0] > 0 for c in env.all_contacts) >= 10:
            yield f"{name}_{seed}", env
            count -= 1
        seed += 1


def from_block(env, point):
    return np.array(env.block.local_to_world(tuple(map(float, point))))


def push_cases(rng):
    """Straight through each side of the block, beside its middle."""
    for name, (middle, normal, half) in SIDES.items():
        env = Recorder()
        env.place((20, 20), (256, 256, rng.uniform(-np.pi, np.pi)))
        middle, normal = np.array(middle), np.array(normal)
        at = middle + rng.uniform(-0.7, 0.7) * half * np.array([-normal[1], normal[0]])
        start, end = from_block(env, at + 40 * normal), from_block(env, at - 45 * normal)
        env.place(start, [*env.block.position, env.block.angle])
        env.write_state()
        follow(env, [end, start], pace=rng.uniform(15, 40))
        yield f"push_{name}", env


def corner_cases(rng):
    """The agent in an inner corner of the T, where it touches bar and stem: once straight into it,
    then from changing directions."""
    for i in range(6):
        side = -1 if i % 2 else 1
        env = Recorder()
        env.place((20, 20), (256, 256, rng.uniform(-np.pi, np.pi)))
        start = from_block(env, (side * 52, 67))
        env.place(start, [*env.block.position, env.block.angle])
        env.write_state()
        for k in range(24):
            # into the corner: against the bar and against the stem at once
            turn = 0.0 if i < 2 else rng.uniform(-1.2, 1.2)
            angle = env.block.angle + np.arctan2(-1.0, -side) + turn
            length = 25 if k % 8 < 7 else -10
            env.play(np.array(env.agent.position) + length * np.array([np.cos(angle), np.sin(angle)]))
        yield f"corner_{i}", env


def at_wall(env, normal, turn, gap):
    """Places the block with its bar towards the wall, turned, `gap` px away from it."""
    angle = np.arctan2(normal[1], normal[0]) + np.pi / 2 + turn  # the bar's top faces along -y
    env.place((256, 256), (256, 256, angle))
    corners = np.array([env.block.local_to_world(v) for s in env.block.shapes for v in s.get_vertices()])
    face = WALL_FACES[0] if min(normal) < 0 else WALL_FACES[1]
    axis = 0 if normal[0] else 1
    reach = (corners @ normal).max()
    position = np.array(env.block.position)
    position[axis] += normal[axis] * (normal[axis] * face - gap - reach)
    return [*position, angle]


def wall_cases(rng):
    for wall, normal in WALLS.items():
        normal = np.array(normal, float)
        along = np.array([-normal[1], normal[0]])

        # the agent alone, through the wall: walls do not hold it
        env = Recorder()
        env.place(256 + 180 * normal, (256, 256, rng.uniform(-np.pi, np.pi)))
        env.write_state()
        start = np.array(env.agent.position)
        follow(env, [256 + 256 * normal, 256 + 250 * normal + 60 * along, start], wait=1)
        yield f"free_wall_{wall}", env

        # the agent between wall and block, which it pushes away from the wall
        env = Recorder()
        block = at_wall(env, normal, 0.3, 40)
        env.place(256 + 246 * normal, block)
        env.write_state()
        follow(env, [256 + 180 * normal])
        yield f"push_off_wall_{wall}", env

        # the agent at the end of the stem pushes the block to the wall, then lets go
        for name, turn, depth, pace, wait in (
            ("touch", 0.0, 13, 5, 3),  # flat, 1 px further than the block can go
            ("lean", 0.25, 60, 15, 0),  # a corner of the bar touches first, the block turns
            ("press", 0.0, 18, 10, 4),  # flat, 6 px further than the block can go
            ("force", 0.0, 45, 20, 6),  # 33 px further
        ):
            env = Recorder()
            block = at_wall(env, normal, turn, 12)
            env.place((256, 256), block)
            stem_end = from_block(env, (0, 120))
            start = stem_end - 30 * normal
            env.place(start, block)
            env.write_state()
            follow(env, [start + (15 + depth) * normal], pace, wait)
            follow(env, [start - 10 * normal])
            yield f"wall_{name}_{wall}", env

        # along the wall, the block flat on it
        env = Recorder()
        block = at_wall(env, normal, 0.0, 0.05)
        env.place((256, 256), block)
        end = from_block(env, (-60, 15))
        direction = np.array(from_block(env, (0, 15))) - end
        direction /= np.linalg.norm(direction)
        env.place(end - 30 * direction, block)
        env.write_state()
        follow(env, [end + 50 * direction + 4 * normal], pace=15)
        yield f"wall_slide_{wall}", env


def free_cases(rng):
    """Targets anywhere beside the block, at any distance."""
    for i in range(2):
        env = Recorder()
        env.place((100, 256), (350, 220, rng.uniform(-np.pi, np.pi)))
        env.write_state()
        for _ in range(100):
            env.play(rng.uniform((0, 0), (205, 512)))
        yield f"free_{i}", env


def resets(rng):
    """Starts that gym-pusht may draw; every third with the agent on the block, every third with the block
    on the lower wall."""
    asked, states = [], []
    for i in range(N_RESETS):
        state = rng.uniform([50, 50, 100, 100, -np.pi], [450, 450, 400, 400, np.pi])
        env = Recorder()
        if i % 3 == 1:
            env.place((20, 20), state[2:])
            env.reset(options={"reset_to_state": state})
            name = list(SIDES)[i // 3]
            state[:2] = from_block(env, np.array(SIDES[name][0]) + 9 * np.array(SIDES[name][1]))
        if i % 3 == 2:
            state[2:] = rng.uniform([100, 388, -0.5], [400, 400, 0.5])
        env.reset(options={"reset_to_state": state})
        env.write_state()
        env.space.step(env.dt)
        env.states[-1][7:10] = env.block_velocity
        asked.append(state)
        states.append(env.states[-1])
    return np.array(asked), np.array(states)


def main():
    pygame.draw.polygon = fill_polygon
    rng = np.random.default_rng(SEED)
    episodes = dict(random_cases("random", N_RANDOM, fast=False))
    episodes.update(random_cases("fast", N_FAST, fast=True))
    episodes.update(returning_cases())
    for cases in (push_cases, corner_cases, wall_cases, free_cases):
        episodes.update(cases(rng))
    tensors = {"background": background()}
    for case, env in episodes.items():
        tensors.update({f"{case}.{key}": value for key, value in env.finish().items()})
        if case.startswith(("return", "wall")):
            tensors[f"{case}.forgetful"] = forgetful_poses(tensors[f"{case}.state"], tensors[f"{case}.action"])
    tensors["reset.asked"], tensors["reset.state"] = resets(rng)
    versions = {name: metadata.version(name) for name in ("gym-pusht", "pymunk", "pygame", "opencv-python", "numpy")}
    save_file(tensors, str(OUT), {**versions, "seed": str(SEED), "polygons": "pygame 2.1",
                                  "command": "python tests/golden/generate/pusht_episodes.py"})
    OUT.chmod(0o644)
    for case in episodes:
        contacts = tensors[f"{case}.contacts"]
        moved = np.abs(np.diff(tensors[f"{case}.state"][:, 4:6], axis=0)).sum()
        print(f"{case:22} {len(contacts):4} steps, moved {moved:6.1f} px, steps with agent, two points, walls, both:",
              (contacts[:, 0] > 0).sum(), (contacts[:, 0] > 1).sum(), (contacts[:, 1] > 0).sum(), contacts[:, 2].sum())


if __name__ == "__main__":
    main()
