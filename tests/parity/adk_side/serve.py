"""Runs in google-adk's own environment: imports it once, then runs one script after another, each
in a fork.

A line of standard input names a script of this folder and its arguments, as a JSON list; a line of
standard output says how it ended, as its exit code. """

import gc
import json
import os
import pathlib
import runpy
import sys
import traceback
import warnings

warnings.simplefilter("ignore")

import google.adk.evaluation.conversation_scenarios
import google.adk.evaluation.eval_config
import google.adk.evaluation.in_memory_eval_sets_manager
import google.adk.evaluation.local_eval_service
import google.adk.evaluation.local_eval_sets_manager
import google.adk.evaluation.metric_evaluator_registry  # noqa: F401 - what the scripts import

HERE = pathlib.Path(__file__).parent


def run(script, *arguments):
    os.dup2(2, 1)
    sys.argv[:] = [script, *arguments]
    try:
        runpy.run_path(str(HERE / script), run_name="__main__")
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def main():
    gc.freeze()
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            code = run(*json.loads(line))
            sys.stderr.flush()
            os._exit(code)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


main()
