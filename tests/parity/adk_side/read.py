"""Reads evaluation files with google-adk's own loaders. One JSON object a line: {path} in, {loader,
set} out."""

import json
import logging
import sys

logging.disable(logging.CRITICAL)

from google.adk.evaluation.eval_set import EvalSet
from google.adk.evaluation.local_eval_sets_manager import (
    convert_eval_set_to_pydantic_schema,
    load_eval_set_from_file,
)


def read(path):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    try:
        return "schema", EvalSet.model_validate_json(text)
    except Exception:
        pass
    try:
        return "cli", load_eval_set_from_file(path, "named")
    except Exception:
        pass
    try:
        flat = [{"name": "flat", "data": json.loads(text), "initial_session": {}}]
        return "agent_evaluator", convert_eval_set_to_pydantic_schema("flat", flat)
    except Exception:
        return None, None


def main():
    with open(sys.argv[1], encoding="utf-8") as requests, open(sys.argv[2], "w", encoding="utf-8") as answers:
        for line in requests:
            loader, found = read(json.loads(line)["path"])
            dumped = found.model_dump(mode="json") if found is not None else None
            answers.write(json.dumps({"loader": loader, "set": dumped}) + "\n")


main()
