"""Writes tests/golden/resize_with_pad.json: images that openpi-client fits into another size.

Made with openpi-client 0.1.2, numpy 1.26.4, Pillow 13.0.0. From the project's root, in a venv with these packages:
    python tests/golden/generate/resize_with_pad.py
"""

import importlib.metadata
import json
import pathlib

import numpy as np
from openpi_client import image_tools

OUT = pathlib.Path(__file__).parents[1] / "resize_with_pad.json"
CASES = {"smaller": ((20, 30), (12, 12)), "much_smaller": ((48, 36), (7, 9)), "larger": ((6, 8), (20, 16)), "wide": ((4, 40), (16, 16))}


def image(height, width):
    """Waves and an edge, so that an image turned or shifted by a pixel is another one."""
    row, column = np.mgrid[:height, :width]
    waves = [np.sin(row / 3 + column / (2 + channel)) for channel in range(3)]
    pixels = 128 + 100 * np.stack(waves, axis=-1)
    pixels[: height // 3, : width // 2] = (250, 10, 90)
    return pixels.astype(np.uint8)


def main():
    made_with = {name: importlib.metadata.version(name) for name in ("openpi-client", "numpy", "pillow")}
    golden = {"made_with": made_with}
    for name, (from_size, to_size) in CASES.items():
        before = image(*from_size)
        after = image_tools.resize_with_pad(before, *to_size)
        golden[name] = {
            "from": {"size": from_size, "pixels": before.tobytes().hex()},
            "to": {"size": to_size, "pixels": after.tobytes().hex()},
        }
    OUT.write_text(json.dumps(golden, indent=1) + "\n")


if __name__ == "__main__":
    main()
