"""Writes tests/golden/wire.json: messages as the packages of other policy servers write them.

Made with openpi-client 0.1.2, vla-eval 0.8.0, msgpack-numpy 0.4.8, msgpack 1.2.4, numpy 1.26.4, Pillow 13.0.0. GR00T's form with .npy
files is made with numpy.save, because GR00T is not a package. From the project's root, in a venv with these packages:
    python tests/golden/generate/wire.py
"""

import importlib.metadata
import io
import json
import pathlib

import msgpack
import msgpack_numpy
import numpy as np
from openpi_client import msgpack_numpy as openpi
from vla_eval.protocol import numpy_codec as vla_eval

OUT = pathlib.Path(__file__).parents[1] / "wire.json"
PACKAGES = ["openpi-client", "vla-eval", "msgpack-numpy", "msgpack", "numpy", "pillow"]

STATE = np.array([1, 2], np.float32)
PIXEL = np.array([[[1, 2, 3]]], np.uint8)
SEVEN = np.array(7, np.int64)
ROW = np.array([[1, 2]], np.float32)


def hexes(pack, values):
    return {name: pack(value).hex() for name, value in values.items()}


def vla_pack(value, image_format="raw"):
    vla_eval.set_image_format(image_format)
    return msgpack.packb(value, default=vla_eval.encode_ndarray)


def numpy_pack(value):
    return msgpack.packb(value, default=msgpack_numpy.encode)


def npy_pack(value):
    def encode(array):
        file = io.BytesIO()
        np.save(file, array, allow_pickle=False)
        return {"__ndarray_class__": True, "as_npy": file.getvalue()}

    return msgpack.packb(value, default=encode)


def frame(kind, payload, seq):
    return {"type": kind, "payload": payload, "seq": seq, "timestamp": 0.0}


def image_map(image_format, array):
    return vla_pack({"image": array}, image_format).hex()


gradient = np.arange(4 * 6 * 3, dtype=np.uint8).reshape(4, 6, 3)
smooth = np.stack(np.meshgrid(np.arange(0, 256, 16), np.arange(0, 256, 8)) + [np.full((32, 16), 100)], axis=2).astype(np.uint8)
jpeg_pixels = msgpack.unpackb(bytes.fromhex(image_map("jpeg", smooth)), object_hook=vla_eval.decode_ndarray)["image"]
rgba = np.arange(4 * 6 * 4, dtype=np.uint8).reshape(4, 6, 4)
integers = [0, 127, 128, 255, 256, 65535, 65536, 2**32 - 1, 2**32, 2**63 - 1, 2**64 - 1, -1, -32, -33, -128, -129, -32768, -32769, -(2**31),
            -(2**31) - 1, -(2**63)]

messages = {
    "openpi": hexes(openpi.packb, {
        "empty": {}, "state": {"state": STATE}, "actions": {"actions": np.array([[1.0], [2.0]])},
        "image": {"image": PIXEL, "prompt": "a"}, "i64_0d": SEVEN, "bools": np.array([True, False])}),
    "vla_eval": hexes(vla_pack, {
        "hello": frame("hello", {"harness_version": "0.8.0", "protocol_version": 1, "benchmark": "PushT"}, 1),
        "episode_start": frame("episode_start", {"task": {"name": "PushT"}}, 2),
        "observation": frame("observation", {"images": {"c": PIXEL}, "state": STATE}, 3),
        "action": frame("action", {"actions": STATE}, 3), "error": frame("error", {"error": "x"}, 3)}),
    "msgpack_numpy": hexes(numpy_pack, {
        "a": {"a": ROW}, "pixel": PIXEL, "i64_0d": SEVEN,
        "get_action": {"endpoint": "get_action", "data": {"observation": {"state": {"arm": ROW[None]}}, "options": None}}}),
    "npy": hexes(npy_pack, {
        "a": {"a": ROW}, "pixel": PIXEL, "vector": STATE, "i64_0d": SEVEN, "none": np.zeros((0, 3), np.float32)}),
    "any": hexes(msgpack.packb, {
        "scalars": {"nil": None, "yes": True, "no": False, "pi": 3.14, "list": [1, "a", b"\x01\xff", [], {}]},
        "integers": integers, "texts": ["", "a" * 31, "a" * 32, "a" * 256, "a" * 65536, "é€🤖"]}),
}

# read only: what is written otherwise, or not at all
read_only = {
    "openpi_f32_scalar": openpi.packb(np.float32(1.5)).hex(), "openpi_i16_scalar": openpi.packb(np.int16(-3)).hex(),
    "openpi_bool_scalar": openpi.packb(np.bool_(True)).hex(),
    "msgpack_numpy_f32_scalar": numpy_pack(np.float32(1.5)).hex(), "msgpack_numpy_f16_scalar": numpy_pack(np.float16(1.5)).hex(),
    "msgpack_numpy_i16_scalar": numpy_pack(np.int16(-3)).hex(), "msgpack_numpy_u64_scalar": numpy_pack(np.uint64(2**64 - 1)).hex(),
    "msgpack_numpy_bool_scalar": numpy_pack(np.bool_(True)).hex(),
    "fortran_npy": npy_pack(np.asfortranarray(np.arange(6, dtype=np.int32).reshape(2, 3))).hex(),
    "float32": msgpack.packb(1.5, use_single_float=True).hex(),
    "png": image_map("png", gradient),
    "rgba_png": image_map("png", rgba), "jpeg": image_map("jpeg", smooth), "jpeg_pixels": jpeg_pixels.tobytes().hex(),
}

versions = {name: importlib.metadata.version(name) for name in PACKAGES}
OUT.write_text(json.dumps({"made_with": versions, "messages": messages, "read_only": read_only}, indent=1) + "\n")
