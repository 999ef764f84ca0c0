"""Prints the only run of an MLflow file store as JSON."""

import json
import sys

from mlflow import MlflowClient

client = MlflowClient(tracking_uri=f"file:{sys.argv[1]}")
[run] = client.search_runs(["0"])
metrics = {
    name: [[metric.step, metric.value] for metric in client.get_metric_history(run.info.run_id, name)]
    for name in run.data.metrics
}
about = {"name": run.info.run_name, "status": run.info.status, "params": run.data.params, "metrics": metrics}
print(json.dumps(about))
