"""Event files by TensorBoard's own protobuf messages and record writer, for test/observe/sinks/tensorboard.test.ts.

    python3 -m venv venv && venv/bin/pip install tensorboard==2.21.0
    venv/bin/python test/golden/make-tensorboard.py              writes tensorboard.tfevents beside this file
    venv/bin/python test/golden/make-tensorboard.py RUN/tensorboard
                                    prints the scalars of a folder, as TensorBoard reads them, as JSON
"""

import json
import pathlib
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.summary.writer.record_writer import RecordWriter


def write(file):
    def scalars(time, step, values):
        value = [summary_pb2.Summary.Value(tag=tag, simple_value=number) for tag, number in values]
        return event_pb2.Event(wall_time=time, step=step, summary=summary_pb2.Summary(value=value))

    start = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
    events = [
        event_pb2.Event(wall_time=1700000000.5, file_version="brain.Event:2"),
        event_pb2.Event(wall_time=1700000000.75, step=1, session_log=start),
        scalars(1700000001.25, 1, [("reward", 0.1), ("task/kg/end/turn limit", 0), ("größe", -2.5e-8)]),
        scalars(1700000002, 300, [("loss", float("nan")), ("lr", float("inf"))]),
        scalars(1700000003, 3_000_000_000, [("x" * 200, 1e30)]),
    ]
    with open(file, "wb") as out:
        writer = RecordWriter(out)
        for event in events:
            writer.write(event.SerializeToString())


def read(folder):
    accumulator = EventAccumulator(folder, size_guidance={"scalars": 0, "tensors": 0}).Reload()
    tags = accumulator.Tags()
    print(json.dumps({tag: [[e.step, e.value] for e in accumulator.Scalars(tag)] for tag in tags["scalars"]}))


if len(sys.argv) > 1:
    read(sys.argv[1])
else:
    write(pathlib.Path(__file__).with_name("tensorboard.tfevents"))
