"""What a test tells a job, as inputs: options that are keys of `agent-eval.yml` alone are stated by `set`."""

import json
from collections.abc import Mapping

from agent_eval.ci.config import INPUT_BY_NAME
from agent_eval.config.project_file import key_of_old_name


def job_inputs(given: Mapping[str, str]) -> dict[str, str]:
    """Inputs by name with hyphens, of options by name with hyphens or underscores."""
    inputs, keys = {}, []
    for written, value in given.items():
        name = written.replace("_", "-")
        key = key_of_old_name(name)
        if key is not None and name not in INPUT_BY_NAME:
            keys.append(f"{key}={json.dumps(value)}")
        else:
            inputs[name] = value
    lines = [*filter(None, [inputs.pop("set", "")]), *keys]
    return {**inputs, "set": "\n".join(lines)} if lines else inputs
