"""What the host of Gymnasium environments reads, and what it refuses: gymnasium.sh runs this file with an interpreter that has
gymnasium. The host is in this process, and its memory is read as dp_bench reads it."""

import collections
import contextlib
import io
import os
import pathlib
import random
import sys
import types
import unittest

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Text, Tuple

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[4] / "plugins/envs/gymnasium"))
import gym_host  # noqa: E402
import gym_world  # noqa: E402

gym_world.draw_without_display()

sys.modules["gym_host_test"] = sys.modules[__name__]  # where the tests name classes of this file
MEMORY = 8 << 20
BULK = 4 << 20
IMAGE = np.arange(16 * 20 * 3, dtype=np.uint8).reshape(16, 20, 3)
NUMBER = {"space": Box(-1, 1, (1,)), "observation": [0]}


class Given(gymnasium.Env):
    """An environment that returns what a test gives."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}
    given = {}

    def __init__(self, render_mode=None):
        self.render_mode = render_mode
        self.action_space = self.given.get("action_space", Box(-1, 1, (1,), np.float32))
        self.observation_space = self.given["space"]

    def reset(self, seed=None, options=None):
        self.t = 0
        self.given["options"] = options
        return self.given.get("reset", (self.given["observation"], {}))

    def step(self, action):
        self.t += 1
        self.given["action"] = action
        observations = self.given.get("observations", [self.given["observation"]])
        infos = self.given.get("infos", [{"is_success": False}])
        last = lambda values: values[min(self.t, len(values)) - 1]  # noqa: E731
        return (last(observations), self.given.get("reward", 0.5), self.given.get("terminated", False),
                self.given.get("truncated", False), last(infos))

    def render(self):
        return self.given.get("frame", IMAGE)


def pushes(observation):
    return [1.0]


def pulls(observation):
    return [-1.0]


class Plain(Given):
    def __init__(self):
        super().__init__()


class Choosy(Given):
    def __init__(self, render_mode=None):
        assert render_mode is None or render_mode in ("human",)
        super().__init__()


class Drawing(Given):
    """It draws from the modules and from a generator of its own."""

    metadata = None
    control_freq = 10

    def __init__(self):
        super().__init__()
        self.is_frozen = True
        self.inner = types.SimpleNamespace(rng=None)

    def remember(self, seed):
        self.remembered = seed

    def reset(self, seed=None, options=None):
        self.t = 0
        return [random.random(), np.random.random(), self.inner.rng.random()], {}


class Refusing(Given):
    def __init__(self, render_mode=None):
        assert False


class Watched(Given):
    """A red box in front of the camera `front`, and another camera far to its side."""

    def __init__(self, render_mode=None):
        import mujoco

        super().__init__()
        self.model = mujoco.MjModel.from_xml_string(
            '<mujoco><worldbody><light pos="-1 0 2"/><geom type="box" size="0.1 0.1 0.1" rgba="1 0 0 1"/>'
            '<camera name="front" pos="-1 0 0" xyaxes="0 -1 0 0 0 1"/>'
            '<camera name="aside" pos="-1 5 0" xyaxes="0 -1 0 0 0 1"/></worldbody></mujoco>')  # fmt: skip
        self.data = mujoco.MjData(self.model)
        mujoco.mj_forward(self.model, self.data)


class OfObservation:
    def get_action(self, observation):
        return observation


class OfInfo:
    def __init__(self, env, gain):
        self.env, self.gain = env, gain

    def reset(self, observation, info):
        self.goal = info["goal"]

    def select_action(self, observation, info):
        assert self.env.action_space
        return [self.gain * (self.goal + observation[0])]


def function_of_both(observation, info):
    return [observation[0] + info["goal"]]


for kind in (Given, Plain, Choosy, Watched):
    gymnasium.register(f"{kind.__name__}-v0", entry_point=kind, max_episode_steps=3)


class Driver:
    """Plays dp_bench."""

    def __init__(self, env_id="Given-v0", obs=None, success="is_success", expert=None, kwargs=None, instruction=None, more=None, **given):
        Given.given = given
        self.fd = os.memfd_create("test")
        os.ftruncate(self.fd, MEMORY)
        self.host = gym_host.Host(self.fd)
        wanted = {"id": env_id, "kwargs": kwargs or {}, "obs": obs or {}, "success": success, "expert": expert, "max_steps": None,
                  "control_hz": None, "moves_without_actions": False, "instruction": instruction, **(more or {})}
        self.wanted = wanted
        request = gym_host.json.dumps(wanted).encode()
        self.host.map_memory(MEMORY)
        self.host.put(0, request)
        self.ask(gym_host.DESCRIBE, input_size=len(request))

    def __del__(self):
        os.close(self.fd)

    def ask(self, command, width=0, height=0, input_size=0):
        packet = self.host.handle((command, 0, width, height, 1, 0.0, 0.0, input_size, BULK, MEMORY))
        answer = gym_host.ANSWER.unpack(packet)
        code, _, _, _, _, size = answer
        if code != gym_host.NO_ERROR:
            raise AssertionError(f"{code}: " + bytes(self.host.memory[BULK : BULK + size]).decode())
        return answer

    def reset(self):
        self.ask(gym_host.RESET)
        return self

    def step(self, n=1):
        """(is_over, success, reward) of the last of n steps."""
        self.host.action[:] = 0.6
        for _ in range(n):
            _, is_over, success, _, reward, _ = self.ask(gym_host.STEP)
            if is_over:
                break
        return is_over, success, reward

    def read(self, name):
        index = [key.name for key in self.host.keys].index(name)
        return self.host.obs_views[index].tolist()

    def shapes(self):
        return {key.name: key.spec["shape"] for key in self.host.keys}


class GymHost(unittest.TestCase):
    def refuses(self, text, *calls, **given):
        """The error of creating the environment, or else of the reset and a step."""
        with self.assertRaises(AssertionError) as caught:
            driver = Driver(*calls, **given)
            driver.reset().step(given.get("n", 1))
        self.assertIn(text, str(caught.exception))

    def test_the_instruction_is_the_given_one_or_that_of_the_environment(self):
        def instruction_of(driver):
            return driver.host.spec(driver.wanted)["instruction"]

        space = Dict({"on": Box(0, 1, (2,))})
        self.assertEqual(instruction_of(Driver(space=space)), "")
        self.assertEqual(instruction_of(Driver(space=space, instruction="push")), "push")
        Given.task_description = "pull"
        try:
            self.assertEqual(instruction_of(Driver(space=space)), "pull")
        finally:
            del Given.task_description

    def test_discrete_parts_are_numbers(self):
        space = Dict({"open": MultiBinary(2), "colour": Discrete(4, start=5), "slots": MultiDiscrete([3, 3]), "on": Box(0, 1, (2,), bool)})
        observation = {"open": np.array([0, 1], np.int8), "colour": 7, "slots": np.array([1, 2]), "on": np.array([True, False])}
        driver = Driver(space=space, observation=observation).reset()
        self.assertEqual(driver.shapes(), {"colour": [1], "on": [2], "open": [2], "slots": [2]})
        self.assertEqual([driver.read(name) for name in ("colour", "on", "open", "slots")], [7.0, [1.0, 0.0], [0.0, 1.0], [1.0, 2.0]])

    def test_discrete_parts_are_one_hot_if_declared(self):
        obs = {name: {"path": name, "layout": "one_hot"} for name in ("colour", "slots")}
        space = Dict({"colour": Discrete(4, start=5), "slots": MultiDiscrete([2, 3])})
        driver = Driver(obs=obs, space=space, observation={"colour": np.int64(7), "slots": [1, 0]}).reset()
        self.assertEqual([driver.read("colour"), driver.read("slots")], [[0, 0, 1, 0], [0, 1, 1, 0, 0]])
        self.refuses("params.obs.colour.layout: expected Discrete or MultiDiscrete", space=Dict({"colour": MultiBinary(2)}),
                     obs={"colour": obs["colour"]}, observation={})

    def test_values_that_a_discrete_part_does_not_have_are_errors(self):
        for space, value in ((Discrete(4), 4), (Discrete(4, start=1), 0), (MultiBinary(2), [0, 2]), (MultiDiscrete([2, 3]), [0, 3])):
            self.refuses("observation 'state': expected values from", space=space, observation=np.array(value))
        self.refuses("observation 'state': expected int64 numbers as in its space, found float64", space=Discrete(4), observation=0.5)

    def test_a_part_that_is_called_action_is_an_observation_of_another_name(self):
        space = Dict({"pos": Box(-9, 9, (2,), np.float32), "action": Box(-99, 99, (1,), np.float32)})
        driver = Driver(space=space, observation={"pos": np.zeros(2), "action": np.array([40.0])}).reset()
        self.assertEqual(driver.read("obs_action"), [40])

    def test_tuples_and_nested_parts_have_paths(self):
        space = Dict({"arm": Tuple([Box(-1, 1, (2,)), Dict({"grip": Discrete(2)})]), "a.b": Box(0, 1, ()), "a_b": Box(0, 1, (1,))})
        observation = collections.OrderedDict(arm=([1, 2], {"grip": 1}))
        observation.update({"a.b": np.float16(0.5), "a_b": [0.25]})
        driver = Driver(space=space, observation=observation).reset()
        self.assertEqual(driver.shapes(), {"a_b": [1], "a_b_": [1], "arm_0": [2], "arm_1_grip": [1]})
        self.assertEqual(driver.read("arm_0"), [1.0, 2.0])
        self.assertEqual((driver.read("a_b"), driver.read("a_b_")), (0.5, [0.25]))
        self.assertEqual(Driver(space=Tuple([Discrete(3)]), observation=(2,)).reset().read("obs_0"), 2.0)

    def test_a_path_is_names_with_dots_or_a_list(self):
        space = Dict({"a.b": Box(0, 9, (1,)), "a": Dict({"b": Box(0, 9, (1,))})})
        given = {"space": space, "observation": {"a.b": [1], "a": {"b": [2]}}}
        self.refuses("found several parts 'a.b'; give the path as a list", obs={"x": {"path": "a.b", "layout": "auto"}}, **given)
        obs = {"x": {"path": ["a.b"], "layout": "auto"}, "y": {"path": ["a", "b"], "layout": "auto"}}
        driver = Driver(obs=obs, **given).reset()
        self.assertEqual((driver.read("x"), driver.read("y")), ([1.0], [2.0]))
        self.assertEqual(sorted(Driver(**given).reset().shapes()), ["a_b", "a_b_"])

    def test_parts_that_are_no_numbers_are_refused_by_name(self):
        space = Dict({"goal": Text(9), "pos": Box(0, 1, (1,))})
        observation = {"goal": "left", "pos": [1]}
        self.refuses("params.obs.goal: expected Box, Discrete, MultiDiscrete, MultiBinary, found Text", space=space, observation=observation)
        self.refuses('All parts, as a mapping: {"pos": {"path": "pos", "layout": "vector"}}', space=space, observation=observation)
        driver = Driver(space=space, observation=observation, obs={"pos": {"path": "pos", "layout": "auto"}}).reset()
        self.assertEqual(driver.read("pos"), [1.0])

    def test_images_are_read_in_every_declared_layout(self):
        grey, alpha = IMAGE[:, :, 0], np.concatenate([IMAGE, IMAGE[:, :, :1]], 2)
        grey_rgb = np.repeat(grey[:, :, None], 3, 2)
        for layout, given, wanted in (("HWC", IMAGE, IMAGE), ("CHW", IMAGE.transpose(2, 0, 1), IMAGE), ("RGBA", alpha, IMAGE),
                                      ("HW", grey, grey_rgb), ("HW", grey[None], grey_rgb), ("HW", grey[:, :, None], grey_rgb)):
            space = Box(0, 255, given.shape, np.uint8)
            driver = Driver(space=space, observation=given, obs={"top": {"path": "", "layout": layout}}).reset()
            self.assertEqual((driver.shapes(), driver.read("top")), ({"top": [3, 16, 20]}, wanted.tolist()), layout)
        for given in (grey.astype(np.uint16), grey.astype(np.float64)[:, :, None]):
            driver = Driver(space=Box(0, 255, given.shape, given.dtype.type), observation=given, obs={"d": {"path": "", "layout": "depth"}}).reset()
            self.assertEqual((driver.shapes(), driver.read("d")), ({"d": [1, 16, 20]}, grey.tolist()))
        self.refuses("params.obs.top.layout: expected a uint8 Box [height, width, 3] for 'HWC', found float32 [16, 20, 3]",
                     space=Box(0, 1, (16, 20, 3)), observation=IMAGE, obs={"top": {"path": "", "layout": "HWC"}})

    def test_a_key_may_take_some_numbers_of_a_vector(self):
        given = {"space": Box(-9, 9, (5,)), "observation": [0, 1, 2, 3, np.nan]}
        driver = Driver(obs={"hand": {"path": "", "layout": "auto", "end": 2}, "rest": {"path": "", "layout": "auto", "begin": 2, "end": 4}}, **given).reset()
        self.assertEqual((driver.shapes(), driver.read("hand"), driver.read("rest")), ({"hand": [2], "rest": [2]}, [0.0, 1.0], [2.0, 3.0]))
        self.refuses("params.obs.rest: begin and end: expected a part of its 5 numbers, found 3 to 6",
                     obs={"rest": {"path": "", "layout": "auto", "begin": 3, "end": 6}}, **given)
        self.refuses("params.obs.top: begin and end: expected the layout 'vector', found 0 to 2 and 'HWC'", space=Box(0, 255, IMAGE.shape, np.uint8),
                     observation=IMAGE, obs={"top": {"path": "", "layout": "HWC", "end": 2}})

    def test_a_text_of_info_becomes_a_one_hot(self):
        part = {"path": "goal", "layout": "auto", "source": "info", "values": ["cube", "drawer"]}
        given = {**NUMBER, "obs": {"part": part}}
        driver = Driver(reset=([0], {"goal": "drawer"}), **given).reset()
        self.assertEqual((driver.shapes(), driver.read("part")), ({"part": [2]}, [0.0, 1.0]))
        with self.assertRaisesRegex(AssertionError, r"observation 'part': expected one of \['cube', 'drawer'\], found 'door'"):
            Driver(reset=([0], {"goal": "door"}), **given).reset()
        self.refuses("params.obs.part.values: expected a text at 'goal'", reset=([0], {"goal": 3}), **given)

    def test_info_says_which_expert_plays(self):
        given = {**NUMBER, "more": {
            "expert_by": "goal", "experts": {"cube": "gym_host_test:pushes", "drawer": "gym_host_test:pulls"}}}  # fmt: skip
        for goal, action in (("cube", 1.0), ("drawer", -1.0)):
            driver = Driver(reset=([0], {"goal": goal}), **given).reset()
            driver.ask(gym_host.BEGIN)
            self.assertEqual(driver.host.expert_action().tolist(), [action])
        driver = Driver(reset=([0], {"goal": "door"}), **given).reset()
        with self.assertRaisesRegex(AssertionError, "expected the expert of 'door', which is 'goal' in info; found those of"):
            driver.ask(gym_host.BEGIN)

    def test_what_may_be_a_image_or_numbers_must_be_declared(self):
        for shape, likely in (((16, 20), "HW"), ((16, 20, 1), "HW"), ((16, 20, 4), "RGBA"), ((4, 16, 20), "vector"), ((2, 16, 20, 3), "vector")):
            space = Box(0, 255, shape, np.uint8)
            self.refuses(f"params.obs.state.layout: expected {likely}", space=space, observation=space.sample())
            driver = Driver(space=space, observation=space.sample(), obs={"state": {"path": "", "layout": "vector"}})
            self.assertEqual(driver.shapes(), {"state": list(shape)})
        driver = Driver(space=Box(0, 1, (16, 20, 3)), observation=np.ones((16, 20, 3), np.float32))
        self.assertEqual((driver.shapes(), driver.host.keys[0].is_doubtful), ({"state": [16, 20, 3]}, True))

    def test_the_note_about_numbers_that_may_be_an_image_says_what_helps(self):
        for shape, kind, advice in (((48, 64, 3), np.float32,
                                     "If it is an image, make it uint8 [height, width, 3] by a wrapper in params.wrappers"),
                                    ((48, 64), np.float32, "For depth, give params.obs.state.layout=depth"),
                                    ((48, 64, 1), np.uint16, "For depth, give params.obs.state.layout=depth")):
            space = Box(0, 1, shape, kind)
            with contextlib.redirect_stderr(io.StringIO()) as told:
                Driver(space=space, observation=space.sample())
            self.assertIn(f"'state' is {kind.__name__} {list(shape)}, and read as numbers. {advice}", told.getvalue())
            if "depth" in advice:
                Driver(space=space, observation=space.sample(), obs={"state": {"path": "", "layout": "depth"}}).reset()

    def test_parts_that_the_space_does_not_have_are_told(self):
        observation = {"arm": {"pos": [1], "force": [2]}, "time": 3}
        driver = Driver(space=Dict({"arm": Dict({"pos": Box(0, 1, (1,))})}), observation=observation)
        with contextlib.redirect_stderr(io.StringIO()) as told:
            driver.reset().step()
        self.assertIn("observations hold ['arm.force', 'time'], which the observation space does not have", told.getvalue())

    def test_an_observation_is_as_its_space_says(self):
        space = Dict({"pos": Box(-9, 9, (2,), np.float32)})
        good = {"pos": np.zeros(2)}
        for bad, text in (({"pos": np.zeros(3)}, "expected the shape (2,) of its space, found (3,)"),
                          ({"pos": np.array([1j, 2])}, "expected float32 numbers as in its space, found complex128"),
                          ({"pos": np.ma.masked_array([1.0, 2.0], [0, 1])}, "expected numbers that are not masked"),
                          ({"pos": None}, "expected float32 numbers as in its space, found object None"),
                          ({"pos": ["1", "2"]}, "expected float32 numbers as in its space, found <U1"),
                          ({"pos": [[1], [1, 2]]}, "expected float32 [2] as in its space, found [[1], [1, 2]]"),
                          ({"pos": [0, np.nan]}, "expected finite float32 numbers, found nan at 1"),
                          ({"pos": [1e300, 0]}, "expected finite float32 numbers, found 1e+300 at 0"),
                          ({"pos": [0, 1 << 60]}, "expected whole numbers up to 16777216, which float32 holds exactly, found 1152921504606846976 at 1"),
                          ({}, "expected the part 'pos', found none in []"),
                          (None, "expected the part 'pos', found none in None")):
            self.refuses(f"observation 'pos': {text}" if "expected float32 numbers as in its space, found <U1" != text else text, space=space, observation=good,
                         observations=[good, bad], n=2)
        for dtype in (np.int64, np.uint64, np.uint32):
            self.refuses("which float32 holds exactly, found 16777217 at 0", space=Box(0, 1 << 30, (1,), dtype), observation=np.array([16777217], dtype))
            driver = Driver(space=Box(0, 1 << 30, (1,), dtype), observation=np.array([16777216], dtype)).reset()
            self.assertEqual(driver.read("state"), [16777216.0])
        self.refuses("expected uint8 numbers as in its space, found int64", space=Box(0, 255, (16, 20, 3), np.uint8), observation=IMAGE.astype(np.int64))

    def test_flags_are_true_false_zero_or_one(self):
        for value in (True, np.True_, 1, 1.0, np.float32(1), np.array([True]), np.array(1)):
            self.assertEqual(Driver(infos=[{"is_success": value}], **NUMBER).reset().step(), (False, True, 0.5))
            self.assertEqual(Driver(terminated=value, success="terminated", **NUMBER).reset().step(), (True, True, 0.5))
        for value in (False, np.False_, 0, 0.0, np.array([0])):
            self.assertEqual(Driver(infos=[{"is_success": value}], terminated=value, **NUMBER).reset().step(), (False, False, 0.5))
        for value in (np.nan, 0.3, 2, -1, "False", "", None, [], [True], np.array([True, False]), 1 + 0j):
            self.refuses("expected True, False, 0 or 1 as info['is_success'], found ", infos=[{"is_success": value}], **NUMBER)
            self.refuses("expected True, False, 0 or 1 as terminated, found ", terminated=value, **NUMBER)
            self.refuses("expected True, False, 0 or 1 as truncated, found ", truncated=value, **NUMBER)

    def test_a_reward_is_a_finite_number(self):
        for value in (2, 2.0, np.int8(2), np.float16(2), np.array([2.0])):
            self.assertEqual(Driver(reward=value, **NUMBER).reset().step(), (False, False, 2.0))
        for value in (None, "1", [1.0], np.array([1.0, 2.0]), 1j):
            self.refuses("expected a number as reward, found ", reward=value, **NUMBER)
        for value in (np.nan, -np.inf, np.float32("inf"), 10**400):
            self.refuses("expected a finite reward, found ", reward=value, **NUMBER)

    def test_success_counts_in_the_steps_that_tell_it(self):
        self.assertEqual(Driver(infos=[{}, {}, {"is_success": True}], **NUMBER).reset().step(3), (False, True, 0.5))
        self.assertEqual(Driver(infos=[{"is_success": True}, {}], **NUMBER).reset().step(2), (False, False, 0.5))
        self.assertEqual(Driver(infos=[{}], **NUMBER).reset().step(3), (False, False, 0.5))  # with a note
        self.refuses("params.success: expected the key 'is_success' in info, found ['my_success'] and no such key in 3 steps",
                     infos=[{"my_success": True}], n=3, **NUMBER)
        self.refuses("expected a dict as info, found None", infos=[None], **NUMBER)
        self.assertEqual(Driver(infos=[None], success="reward>=0.5", **NUMBER).reset().step(), (False, True, 0.5))

    def test_a_key_that_never_came_is_told_when_the_episode_is_cut_short(self):
        def told(infos, *calls):
            driver = Driver(**NUMBER, infos=infos).reset()
            with contextlib.redirect_stderr(io.StringIO()) as text:
                for call in calls:
                    call(driver)
            return text.getvalue()

        def step(driver):
            driver.step(2)  # of 3

        wanted = "expected the key 'is_success' in info, found ['my_success'] and no such key in 2 steps, after which the episode was cut short"
        self.assertIn(wanted, told([{"my_success": True}], step, Driver.reset))
        self.assertIn(wanted, told([{"my_success": True}], step, lambda driver: driver.host.close()))
        self.assertEqual(told([{"my_success": True}], Driver.reset), "")
        self.assertEqual(told([{"is_success": False}, {}], step, Driver.reset, lambda driver: driver.host.close()), "")
        self.assertEqual(told([{}], lambda driver: driver.step(3), Driver.reset).count("note"), 1)

    def test_success_is_an_expression(self):
        info = {"a": {"b": [1, 2.5]}, "task-success": True, "nan": float("nan"), "word": "x", "return": 7, "my return": {"return": 8}}
        given = {**NUMBER, "infos": [info], "reward": 2.0}
        for rule, wanted in (("reward >= 2", True), ("return > 4", False), ("info.a.b[1] == 2.5 and not terminated", True),
                             ("a.b[0] + 1 < reward", False), ("-reward < -1.5", True), ("1 < reward <= 2", True), ("missing > 0", False),
                             ("missing.deeply < 1 or reward == 2", True), ("info['task-success']", True), ("nan < 1 or nan > 1", False),
                             ("reward / 0 > 1", False), ("not missing", True), ("terminated or return == 2", True),
                             ("info['return'] == 7 and return == 2", True), ('info.return == 7 and info["my return"].return == 8', True)):
            self.assertEqual(Driver(success=rule, **given).reset().step()[1], wanted, rule)
        self.assertEqual(Driver(success="return > 5", **given).reset().step(3)[1], True)
        for rule in ("reward >=", "reward + 1", "task-success", "open('x')", "reward if 1 else 2", "a[reward] > 1", "[1] == reward", "reward in a"):
            self.refuses("params.success: ", success=rule, **given)
        self.refuses("params.success: expected a number as word, found 'x'", success="word > 1", **given)

    def test_success_can_be_held_or_wanted_at_the_end(self):
        flags = [{"is_success": flag} for flag in (True, True, False)]
        for more, wanted in (({}, [1, 1, 0]), ({"success_hold": 2}, [0, 1, 0]), ({"success_hold": 3}, [0, 0, 0]), ({"success_when": "end"}, [0, 0, 0])):
            driver = Driver(infos=flags, more=more, **NUMBER).reset()
            self.assertEqual([driver.step()[1] for _ in range(3)], wanted, more)
        driver = Driver(infos=flags[::-1], more={"success_when": "end"}, **NUMBER).reset()
        self.assertEqual([driver.step()[1] for _ in range(3)], [0, 0, 1])
        self.assertEqual(gym_host.METRICS.unpack_from(driver.host.memory, BULK), (0.5, 1.5, 1.0))

    def test_a_class_makes_the_env_and_wrappers_wrap_it(self):
        driver = Driver(env_id="", space=Box(-1, 1, (2, 2)), observation=np.ones((2, 2)), success="terminated",
                        more={"entry": "gym_host_test:Plain", "wrappers": ["gymnasium.wrappers:FlattenObservation"], "max_steps": 3})
        self.assertEqual(driver.reset().read("state"), [1, 1, 1, 1])
        for more, text in (({"entry": "gym_host_test:Nobody"}, "params.entry: expected module:name of a class or function that makes the environment"),
                           ({"entry": "nowhere:Plain"}, "No module named 'nowhere'"), ({"wrappers": ["x"]}, "params.wrappers: expected module:name"),
                           ({"imports": ["nowhere"]}, "params.imports: ")):
            self.refuses(text, more=more, **NUMBER)

    def test_what_cannot_be_made_is_said_with_its_reason(self):
        self.refuses("Give the module that registers it, as module:id or in params.imports", env_id="Nowhere-v0", **NUMBER)
        self.refuses("AssertionError: assert False", env_id="", more={"entry": "gym_host_test:Refusing", "max_steps": 3}, **NUMBER)
        self.refuses(f"with Python {sys.version.split()[0]}, gymnasium {gymnasium.__version__}", env_id="",
                     more={"entry": "gym_host_test:Refusing", "max_steps": 3}, **NUMBER)

    def test_without_gymnasium_every_request_is_answered_with_that(self):
        gym_host.missing = "params.python: python has no module 'gymnasium'"
        try:
            self.refuses("1: params.python: python has no module 'gymnasium'", **NUMBER)
        finally:
            gym_host.missing = None

    def test_a_reset_seeds_what_the_env_draws_from(self):
        driver = Driver(env_id="", space=Box(-1, 1, (3,)), observation=[0], more={
            "entry": "gym_host_test:Drawing", "max_steps": 3,
            "seeding": {"global": True, "method": "remember", "attributes": {"is_frozen": False}, "generators": ["inner.rng"]}})
        first, second = (driver.reset().read("state") for _ in range(2))
        self.assertEqual(first, second)
        self.assertEqual((driver.host.world.core.remembered, driver.host.world.core.is_frozen), (1, False))
        self.refuses("params.seeding: expected an attribute of Given, found no 'rng'", **NUMBER,
                     more={"seeding": {"generators": ["rng"]}})

    def test_reset_options_reach_the_env(self):
        driver = Driver(**NUMBER, more={"reset_options": {"task_id": 2}}).reset()
        self.assertEqual(Given.given["options"], {"task_id": 2})
        driver.step()

    def test_observations_come_from_info_too(self):
        obs = {"goal": {"path": "goal.place", "layout": "auto", "source": "info"}}
        infos = [{"goal": {"place": [3, 4], "word": "x"}, "is_success": False}]
        given = {**NUMBER, "reset": ([0], {"goal": {"place": [1, 2]}}), "infos": infos}
        driver = Driver(obs=obs, **given).reset()
        self.assertEqual(driver.read("goal"), [1, 2])
        driver.step()
        self.assertEqual(driver.read("goal"), [3, 4])
        self.refuses("params.obs.goal.path: expected one of ['goal.place']", obs={"goal": {**obs["goal"], "path": "no"}}, **given)

    def test_images_are_resized_as_pillow_does(self):
        # what PIL.Image.fromarray(IMAGE).resize((5, 4), PIL.Image.Resampling.BILINEAR) returns
        driver = Driver(space=Box(0, 255, (16, 20, 3), np.uint8), observation=IMAGE, obs={"top": {"path": "", "layout": "HWC", "size": [4, 5]}})
        self.assertEqual(driver.shapes(), {"top": [3, 4, 5]})
        flat = np.full((16, 20, 3), 7, np.uint8)
        driver = Driver(space=Box(0, 255, (16, 20, 3), np.uint8), observation=flat, obs={"top": {"path": "", "layout": "HWC", "size": [4, 5]}})
        self.assertEqual(np.unique(driver.reset().read("top")).tolist(), [7])
        self.refuses("params.obs.top.size: expected an image", space=Box(0, 1, (4, 4)), observation=np.ones((4, 4)),
                     obs={"top": {"path": "", "layout": "vector", "size": [4, 5]}})

    def test_actions_without_bounds_need_some(self):
        space = Box(np.array([-np.inf, -2], np.float32), np.array([np.inf, 2], np.float32))
        given = {**NUMBER, "action_space": space}
        self.refuses("params.action_low: expected the bounds of actions, because the action space is not finite at [0]; found none", **given)
        driver = Driver(more={"action_low": [-0.5], "action_high": [0.5]}, **given).reset()
        driver.step()
        self.assertEqual(Given.given["action"].tolist(), [0.5, np.float32(0.6)])
        self.assertEqual(driver.host.spec(driver.wanted)["action_high"], [0.5, 2.0])

    def test_a_repeated_action_adds_its_rewards(self):
        driver = Driver(more={"action_repeat": 2}, **NUMBER).reset()
        spec = driver.host.spec(driver.wanted)
        self.assertEqual((spec["control_hz"], spec["max_steps"], driver.step()), (5, 2, (False, False, 1.0)))
        self.assertEqual(Driver(more={"action_repeat": 2}, terminated=True, **NUMBER).reset().step(), (True, False, 0.5))

    def test_max_steps_replaces_the_registered_limit(self):
        driver = Driver(more={"max_steps": 5}, **NUMBER).reset()
        self.assertEqual([driver.step()[0] for _ in range(5)], [False] * 5)
        self.assertEqual(driver.host.n_steps, 5)

    def test_the_rate_is_that_of_the_time_step(self):
        for attributes, wanted in (({}, 10), ({"control_freq": 20}, 20), ({"control_timestep": lambda self: 0.02}, 50), ({"dt": 0.1}, 10),
                                   ({"dt": 0.0125, "frame_skip": 5}, 80)):
            kind = type("Timed", (Given,), attributes)
            globals()["Timed"] = sys.modules["gym_host_test"].Timed = kind
            driver = Driver(env_id="", more={"entry": "gym_host_test:Timed", "max_steps": 3}, **NUMBER)
            self.assertEqual(driver.host.spec(driver.wanted)["control_hz"], wanted, attributes)

    def test_the_task_fills_the_texts(self):
        driver = Driver(env_id="{task}-v0", instruction="do {task}", **NUMBER, more={"task": "Given", "tasks": ["Given"]})
        spec = driver.host.spec(gym_host.filled(driver.wanted, "Given"))
        self.assertEqual((spec["instruction"], spec["tasks"]), ("do Given", ["Given"]))

    def test_an_expert_gets_what_it_takes(self):
        given = {"space": Box(-1, 1, (1,)), "observation": [0.25], "reset": ([0.25], {"goal": 0.5})}
        for name, kwargs, wanted in (("OfObservation", {}, 0.25), ("OfInfo", {"gain": 2.0}, 1.5), ("function_of_both", {}, 0.75)):
            driver = Driver(expert=f"gym_host_test:{name}", more={"expert_kwargs": kwargs}, **given).reset()
            driver.ask(gym_host.BEGIN)
            driver.ask(gym_host.ACT)
            action = float(np.frombuffer(driver.host.memory, np.float32, 1, BULK)[0])
            self.assertEqual(action, min(wanted, 1.0), name)

    def test_reset_and_step_return_what_gymnasium_says(self):
        given = {"space": Box(-1, 1, (2,)), "observation": [0, 0]}
        self.refuses("expected (observation, info) from reset, found array([0., 0.])", reset=np.zeros(2), **given)

    def test_whole_actions_are_rounded(self):
        driver = Driver(**NUMBER, action_space=Box(0, 5, (2,), np.int32)).reset()
        driver.step()
        self.assertEqual(Given.given["action"].tolist(), [1, 1])

    def test_an_environment_that_draws_nothing_is_played(self):
        for env_id, kwargs in (("Plain-v0", {}), ("Plain-v0", {"render_mode": None}), ("Choosy-v0", {}), ("Given-v0", {"render_mode": None})):
            driver = Driver(env_id, kwargs=kwargs, **NUMBER).reset()
            driver.step()
            with self.assertRaisesRegex(AssertionError, "the environment draws no images: "):
                driver.ask(gym_host.RENDER, width=4, height=4)

    def drawn(self, camera, **more):
        driver = Driver("Watched-v0", obs={"image": {"path": camera, "source": "camera", "layout": "auto", "size": [24, 24]}}, more=more, **NUMBER)
        driver.reset().ask(gym_host.OBSERVE)
        return driver

    def watch(self, camera, **more):
        """Where the box is in the image of a camera: mean row and column of the red pixels; None if there are none."""
        driver = self.drawn(camera, **more)
        red, green, _ = np.array(driver.read("image"), int).transpose(2, 0, 1)
        rows, columns = np.nonzero(red > green + 40)
        return (rows.mean(), columns.mean()) if len(rows) else None

    def test_a_camera_is_moved_to_its_position(self):
        row, column = self.watch("front")
        self.assertAlmostEqual(row, 11.5, delta=1)
        self.assertAlmostEqual(column, 11.5, delta=1)
        self.assertIsNone(self.watch("aside"))
        self.assertEqual(self.watch("aside", camera_positions={"aside": [-1, 0, 0]}), (row, column))
        _, column_from_left = self.watch("front", camera_positions={"front": [-1, 0.2, 0]})
        self.assertGreater(column_from_left, column + 2)
        with self.assertRaisesRegex(AssertionError, r"one of \['front', 'aside'\], found 'back'"):
            self.watch("front", camera_positions={"back": [0, 0, 0]})

    def test_a_camera_stays_in_the_model_of_the_environment(self):
        core = self.drawn("aside", camera_positions={"aside": [-1, 0, 0]}).host.world.core
        self.assertEqual(core.model.cam_pos.tolist(), [[-1, 0, 0], [-1, 5, 0]])
        self.assertEqual(core.data.cam_xpos.tolist(), [[-1, 0, 0], [-1, 5, 0]])

    def test_an_upside_down_camera_gives_the_image_turned(self):
        moved = {"camera_positions": {"front": [-1, 0.2, 0.1]}}
        row, column = self.watch("front", **moved)
        turned_row, turned_column = self.watch("front", upside_down_cameras=["front"], **moved)
        self.assertAlmostEqual(turned_row, 23 - row)
        self.assertAlmostEqual(turned_column, 23 - column)

    def test_a_frame_is_a_uint8_image(self):
        for frame, found in ((None, "NoneType"), ([IMAGE], "list"), (IMAGE / 255.0, "float64"), (IMAGE[:, :, 0], "uint8 (16, 20)")):
            driver = Driver(**NUMBER, frame=frame).reset()
            with self.assertRaises(AssertionError) as caught:
                driver.ask(gym_host.RENDER, width=4, height=4)
            self.assertIn(f"expected render to return a uint8 image [height, width, 3], found {found}", str(caught.exception))


if __name__ == "__main__":
    unittest.main()
