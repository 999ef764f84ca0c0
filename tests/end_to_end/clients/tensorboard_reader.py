"""Reads a folder of event files with TensorBoard's own reader.

Prints {tag: [[step, value], ...]} as JSON. Usage: tensorboard_reader.py FOLDER
"""

import json
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

events = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0})
events.Reload()
curves = {
    tag: [[event.step, event.value] for event in events.Scalars(tag)] for tag in events.Tags()["scalars"]
}
print(json.dumps(curves))
