"""Event files that EventWriter made, read by TensorBoard itself. Needs tensorboard; from the project's root:
    python tests/integration/tensorboard_reads.py build/release/bin/write_event_files
"""

import math
import pathlib
import struct
import subprocess
import sys
import tempfile
import zlib

from tensorboard.backend.event_processing.event_accumulator import STORE_EVERYTHING_SIZE_GUIDANCE, EventAccumulator
from tensorboard.backend.event_processing import plugin_event_accumulator


def expect_equal(what, found, wanted):
    if found != wanted:
        sys.exit(f"{what}: wanted {wanted}, found {found}")
    print(f"ok  {what}: {found}")


def float32(value):
    return struct.unpack("f", struct.pack("f", value))[0]


def steps_and_values(events):
    return [(event.step, event.value) for event in events]


def png_rows(png):
    """The bytes of an RGB8 file whose rows have no filter, by hand."""
    width, height = struct.unpack(">II", png[16:24])
    compressed, begin = b"", 8
    while begin < len(png):
        n_bytes, kind = struct.unpack(">I4s", png[begin:begin + 8])
        if kind == b"IDAT":
            compressed += png[begin + 8:begin + 8 + n_bytes]
        begin += 12 + n_bytes
    rows = zlib.decompress(compressed)
    return width, height, b"".join(rows[i * (3 * width + 1) + 1:(i + 1) * (3 * width + 1)] for i in range(height))


def check_first_run(file):
    found = EventAccumulator(str(file), STORE_EVERYTHING_SIZE_GUIDANCE).Reload()
    tags = found.Tags()
    expect_equal("scalars", tags["scalars"], ["train_loss", "grad_norm", "test/mean_score"])
    expect_equal("images", tags["images"], ["rollout"])
    expect_equal("file version", found.file_version, 2.0)

    expect_equal("train_loss", steps_and_values(found.Scalars("train_loss")),
                 [(step, float32(1 / (1 + step))) for step in range(10)])
    nan, infinity = found.Scalars("grad_norm")
    expect_equal("NaN", math.isnan(nan.value), True)
    expect_equal("infinity", infinity.value, math.inf)

    image = found.Images("rollout")[0]
    pixels = bytes(byte for row in range(8) for column in range(16) for byte in (row * 16, column * 8, 200))
    expect_equal("image size", (image.width, image.height), (16, 8))
    expect_equal("image content", png_rows(image.encoded_image_string) == (16, 8, pixels), True)


def check_continuation(folder):
    found = EventAccumulator(str(folder), STORE_EVERYTHING_SIZE_GUIDANCE).Reload()
    expect_equal("steps from both files", [event.step for event in found.Scalars("train_loss")], list(range(8)))
    expect_equal("values from 6 on", steps_and_values(found.Scalars("train_loss"))[6:], [(6, 106.0), (7, 107.0)])
    expect_equal("shadowed scalars", [event.step for event in found.Scalars("test/mean_score")], [5])
    expect_equal("shadowed images", [event.step for event in found.Images("rollout")], [5])

    # read like the web server, for which everything is a tensor
    found = plugin_event_accumulator.EventAccumulator(str(folder)).Reload()
    expect_equal("shadowed by the server", [event.step for event in found.Tensors("train_loss")], list(range(8)))


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        subprocess.run([sys.argv[1], str(folder)], check=True)
        files = sorted(folder.iterdir())
        expect_equal("files", len(files), 2)
        check_first_run(files[0])
        check_continuation(folder)


if __name__ == "__main__":
    main()
