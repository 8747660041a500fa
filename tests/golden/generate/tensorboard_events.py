"""Writes tests/golden/tensorboard_events.json: Event messages and a TFRecord by TensorBoard's own classes.

Made with tensorboard 2.21.0, protobuf 7.36.2. From the project's root, in a venv with tensorboard:
    python tests/golden/generate/tensorboard_events.py
"""

import io
import json
import pathlib
import struct
import zlib

import google.protobuf
import tensorboard.version
from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.summary.writer.record_writer import RecordWriter

OUT = pathlib.Path(__file__).parents[1] / "tensorboard_events.json"
WALL_TIME = 1700000000.125
PIXELS = bytes(range(18))  # 3 wide, 2 high

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
}

golden = {
    "tensorboard": tensorboard.version.VERSION, "protobuf": google.protobuf.__version__,
    "wall_time": WALL_TIME, "png": png().hex(),
    "events": {name: data.hex() for name, data in events.items()},
    "records": {"file_version": framed(version).hex(), "empty": framed(b"").hex()},
}
OUT.write_text(json.dumps(golden, indent=1) + "\n")
