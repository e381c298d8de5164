"""The same agent behind a function, by somebody who knows no agent objects: it asks the model itself."""

from __future__ import annotations

import json
import os
import urllib.request
from typing import Any

from tools import ALL, Task

TOOLS = {tool.__name__: tool for tool in ALL}
OFFERED = [{"function": {"name": name, "parameters": {}}} for name in TOOLS]


def ask(model: str, task: Task, **options: Any) -> dict[str, Any]:
    messages: list[dict[str, Any]] = []
    for words in [*(turn["input"] for turn in task.get("history", [])), task["input"]]:
        messages.append({"role": "user", "content": words})
        calls: list[dict[str, Any]] = []
        while True:
            body = {"model": model, "messages": messages, "tools": OFFERED, **options}
            address = f"{os.environ['OPENAI_BASE_URL']}/chat/completions"
            with urllib.request.urlopen(address, json.dumps(body).encode()) as answer:
                reply = json.load(answer)["choices"][0]["message"]
            messages.append(reply)
            if "tool_calls" not in reply:
                break
            for each in reply["tool_calls"]:
                arguments = json.loads(each["function"]["arguments"])
                call = {"tool": each["function"]["name"], "arguments": arguments, "id": each["id"]}
                try:
                    call["output"] = TOOLS[call["tool"]](**arguments)
                except LookupError as error:
                    call["error"] = str(error)
                calls.append(call)
                messages.append({"role": "tool", "content": json.dumps(call)})
    return {"assistant_output": reply["content"], "tool_calls": calls}


def good(task: Task) -> dict[str, Any]:
    return ask("good", task)


def worse(task: Task) -> dict[str, Any]:
    return ask("worse", task)


def structured(task: Task) -> dict[str, Any]:
    answer = ask("good", task, response_format={"type": "json_object"})
    return {**answer, "assistant_output": json.loads(answer["assistant_output"])}
