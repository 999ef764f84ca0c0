"""Writes the quickstart's job file.

usage: write_job.py JOB.yaml MODEL_DIR DATA_DIR OUTPUT_DIR EPOCHS CORES
"""

import json
import sys
from pathlib import Path

JOB = """\
name: package-sections
model:
  name_or_path: {model}
  task: sequence-classification
data:
  train: {data}/train.parquet
  validation: {data}/validation.csv
  text: text
  label: label
  label_map: {label_map}
  max_length: 128
train:
  num_train_epochs: {epochs}
  per_device_train_batch_size: 16
  per_device_eval_batch_size: 32
  learning_rate: 1.0e-4
  lr_scheduler_type: linear
  train_sampling_strategy: group_by_length
  eval_strategy: epoch
  logging_steps: 10
resources:
  platform: cpu
  cores: {cores}
parallel:
  shard_optimizer_state: true
output_dir: {output}
"""


def main():
    job, model, data, output, epochs, cores = sys.argv[1:]
    labels = json.loads((Path(data) / "labels.json").read_text())
    label_map = "{" + ", ".join(f"{index}: {json.dumps(label)}" for index, label in enumerate(labels)) + "}"
    text = JOB.format(model=model, data=data, output=output, epochs=epochs, cores=cores, label_map=label_map)
    Path(job).write_text(text)


if __name__ == "__main__":
    main()
