"""Writes tests/golden/tensorboard_events.json: Event messages and a TFRecord by TensorBoard's own classes.

Made with tensorboard 2.21.0, protobuf 7.36.2, numpy 2.4.6. From the project's root, in a venv with tensorboard:
    python tests/golden/generate/tensorboard_events.py

Histograms: tensorflow/core/lib/histogram/histogram.cc is not in that package. Its buckets are built here with
numpy.histogram, and runs of empty ones are merged as in its EncodeToProto. All values are sums of a few powers of
two, so that sums do not depend on their order.
"""

import io
import json
import pathlib
import struct
import sys
import zlib

import google.protobuf
import numpy as np
import tensorboard.version
from tensorboard.compat.proto import event_pb2, histogram_pb2, summary_pb2
from tensorboard.plugins.text.summary_v2 import text_pb
from tensorboard.summary.writer.record_writer import RecordWriter

OUT = pathlib.Path(__file__).parents[1] / "tensorboard_events.json"
WALL_TIME = 1700000000.125
PIXELS = bytes(range(18))  # 3 wide, 2 high

HISTOGRAMS = {
    "typical": [-1.5, -0.25, -0.25, 0.0, 0.5, 0.5, 0.53125, 3.0, 96.0, 2.0**-40, -(2.0**-45), 2.0**-30],
    "one_value": [0.75],
    "zeros": [0.0, 0.0],
    "beyond_the_limits": [2.0**70, -(2.0**71), 2.0**-100],
}


def limits():
    positive = []
    limit = 1e-12
    while limit < 1e20:
        positive.append(limit)
        limit *= 1.1
    positive.append(sys.float_info.max)
    return [-limit for limit in reversed(positive)] + [0.0] + positive


def histogram(values):
    values = np.array(values, dtype=np.float64)
    right = limits()
    counts = np.histogram(values, bins=right)[0]
    counts = [0] + counts.tolist()  # nothing is below -DBL_MAX
    kept = [i for i, count in enumerate(counts) if count or counts[i + 1:i + 2] != [0]]
    return histogram_pb2.HistogramProto(
        min=values.min(), max=values.max(), num=len(values), sum=values.sum(), sum_squares=values @ values,
        bucket_limit=[right[i] for i in kept], bucket=[counts[i] for i in kept])


def png():
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = b"".join(b"\0" + PIXELS[i:i + 9] for i in (0, 9))
    header = struct.pack(">IIBBBBB", 3, 2, 8, 2, 0, 0, 0)
    chunks = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunks


def event(step, **what):
    return event_pb2.Event(wall_time=WALL_TIME, step=step, **what).SerializeToString()


def value(step, **what):
    return event(step, summary=summary_pb2.Summary(value=[summary_pb2.Summary.Value(**what)]))


def framed(data):
    file = io.BytesIO()
    RecordWriter(file).write(data)
    return file.getvalue()


version = event(0, file_version="brain.Event:2")
image = summary_pb2.Summary.Image(height=2, width=3, colorspace=3, encoded_image_string=png())
events = {
    "file_version": version,
    "session_start": event(300, session_log=event_pb2.SessionLog(status=event_pb2.SessionLog.START)),
    "session_start_at_0": event(0, session_log=event_pb2.SessionLog(status=event_pb2.SessionLog.START)),
    "scalar": value(7, tag="train_loss", simple_value=0.1),
    "scalar_zero": value(0, tag="train_loss", simple_value=0.0),
    "scalar_nan": value(2**40, tag="train_loss", simple_value=float("nan")),
    "scalar_negative_step": value(-1, tag="a/b", simple_value=float("-inf")),
    "image": value(7, tag="rollout", image=image),
    "text": event(7, summary=text_pb("config", "# Title\n\n`\u03b2` = 1")),
    "text_empty": event(7, summary=text_pb("config", "")),
}
for name, values in HISTOGRAMS.items():
    events[f"histogram_{name}"] = value(300, tag="weights", histo=histogram(values))

golden = {
    "tensorboard": tensorboard.version.VERSION, "protobuf": google.protobuf.__version__, "numpy": np.__version__,
    "wall_time": WALL_TIME, "histograms": HISTOGRAMS, "png": png().hex(),
    "events": {name: data.hex() for name, data in events.items()},
    "records": {"file_version": framed(version).hex(), "empty": framed(b"").hex()},
}
OUT.write_text(json.dumps(golden, indent=1) + "\n")
