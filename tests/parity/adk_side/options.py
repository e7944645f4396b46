"""Runs in google-adk's own environment: whether it takes a configuration.

Usage: options.py REQUESTS ANSWERS, both one JSON object a line: an EvalConfig -> {"refused": name
of the error | null}. """

import json
import sys

from google.adk.evaluation.eval_config import EvalConfig, get_eval_metrics_from_config
from google.adk.evaluation.metric_evaluator_registry import DEFAULT_METRIC_EVALUATOR_REGISTRY as REGISTRY


def refused(line):
    try:
        config = EvalConfig.model_validate_json(line)
        REGISTRY.get_evaluator(get_eval_metrics_from_config(config)[0])
    except Exception as error:
        return type(error).__name__
    return None


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as requests, open(sys.argv[2], "w", encoding="utf-8") as answers:
        for line in requests:
            answers.write(json.dumps({"refused": refused(line)}) + "\n")
