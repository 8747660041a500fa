"""Plans with a policy that `dp_bench export --format onnx|torchscript` wrote. Needs numpy and onnxruntime, or torch; no dp_bench.

    python exported_policy.py FOLDER        # one plan for an observation of zeros
"""

import json
import pathlib
import sys

import numpy as np


def load_graph(folder, part):
    """A function from a dictionary of inputs to the graph's result."""
    path = str(folder / part["file"])
    if path.endswith(".onnx"):
        import onnxruntime

        session = onnxruntime.InferenceSession(path)
        return lambda inputs: session.run([part["output"]], {name: inputs[name] for name in part["inputs"]})[0]
    import torch

    module = torch.jit.load(path)

    def run(inputs):
        with torch.no_grad():
            return module(*(torch.from_numpy(np.ascontiguousarray(inputs[name])) for name in part["inputs"])).numpy()

    return run


class ExportedPolicy:
    def __init__(self, folder):
        folder = pathlib.Path(folder)
        self.sampler = json.loads((folder / "sampler.json").read_text())
        self.encode = load_graph(folder, self.sampler["encoder"])
        self.denoise = load_graph(folder, self.sampler["denoiser"])

    def plan(self, obs, draw_noise):
        """obs: the last To observations of each key, [B, To, ...]. draw_noise(shape): N(0, 1) float32. Returns [B, Ta, Da]."""
        condition = self.encode({o["input"]: obs[o["key"]] for o in self.sampler["observations"]})
        shape = (len(condition), *self.sampler["sample"]["shape"])
        starts_from_noise = self.sampler["sample"]["starts_from"] == "noise"
        x = draw_noise(shape) if starts_from_noise else np.zeros(shape, np.float32)
        last_x = last_x0 = np.zeros(shape, np.float32)
        for step in self.sampler["steps"]:
            x = self.restore(x, condition)
            time = np.full(len(x), step["time"], np.float32)
            output = self.denoise({"sample": x, "time": time, "condition": condition})
            x0 = x * step["x0"]["sample"] + output * step["x0"]["output"]
            if step["clip"] is not None:
                x0 = x0.clip(-step["clip"], step["clip"])
            terms = {"x0": x0, "sample": x, "output": output, "last_x0": last_x0, "last_sample": last_x}
            following = sum(step["next"][name] * term for name, term in terms.items())
            if step["next"]["noise"] > 0:
                following += step["next"]["noise"] * draw_noise(shape)
            x, last_x, last_x0 = following.astype(np.float32), x, x0
        action = self.sampler["action"]
        chunk = x[:, action["first_step"]:action["first_step"] + action["n_steps"], :action["dim"]]
        return (chunk - np.float32(action["offset"])) / np.float32(action["scale"])

    def restore(self, x, condition):
        """With inpainting, the sequence holds the observed steps beside the actions."""
        if not self.sampler["sample"]["inpaints_condition"]:
            return x
        x = x.copy()
        x[:, :condition.shape[1], self.sampler["action"]["dim"]:] = condition
        return x


if __name__ == "__main__":
    policy = ExportedPolicy(sys.argv[1])
    zeros = {o["key"]: np.zeros((1, *o["shape"]), o["dtype"]) for o in policy.sampler["observations"]}
    random = np.random.default_rng(0)
    print(policy.plan(zeros, lambda shape: random.standard_normal(shape, np.float32)))
