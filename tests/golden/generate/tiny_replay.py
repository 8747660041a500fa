"""A replay buffer of a few kB in the layout of the PushT demonstrations, for tests without them.

Writes tests/data/tiny_replay.zarr: three episodes of 9, 1 and 10 steps. Needs zarr 2 and numcodecs.
    python tests/golden/generate/tiny_replay.py
"""

import pathlib
import shutil

import numcodecs
import numpy as np
import zarr

OUT = pathlib.Path(__file__).resolve().parents[2] / "data" / "tiny_replay.zarr"
ENDS = [9, 10, 20]


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    n = ENDS[-1]
    rng = np.random.default_rng(0)
    state = np.cumsum(rng.uniform(-5, 5, (n, 5)), axis=0) + 256
    keypoint = np.cumsum(rng.uniform(-5, 5, (n, 9, 2)), axis=0) + 256
    image = np.full((n, 8, 8, 3), 255)
    for step in range(n):
        image[step, step % 8, step // 8] = (step, 2 * step, 100)

    root = zarr.open_group(str(OUT), mode="w", zarr_version=2)
    bitshuffled = numcodecs.Blosc(cname="zstd", clevel=5, shuffle=numcodecs.Blosc.BITSHUFFLE)
    for name, values, dtype, chunk, compressor in [
            ("data/action", state[:, :2] + 3, "<f4", 7, bitshuffled),
            ("data/state", state, "<f4", 7, numcodecs.Blosc(cname="lz4", shuffle=0)),
            ("data/keypoint", keypoint, "<f8", 20, numcodecs.Zlib(level=5)),
            ("data/img", image, "<f4", 7, bitshuffled),
            ("meta/episode_ends", np.array(ENDS), "<i8", 3, None)]:
        root.create_dataset(name, data=values.astype(dtype), chunks=(chunk,) + values.shape[1:],
                            dtype=dtype, compressor=compressor)


if __name__ == "__main__":
    main()
