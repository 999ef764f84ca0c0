"""Trains by SageMaker's estimator what the JSON on the command line says, and prints the model's folder."""

import json
import sys

import traind

if __name__ == "__main__":
    wanted = json.loads(sys.argv[1])
    with traind.Client() as client:
        estimator = traind.HuggingFace(**wanted["estimator"], client=client)
        estimator.fit(wanted["inputs"], logs=False, job_name=wanted["name"])
        print(estimator.model_data)
