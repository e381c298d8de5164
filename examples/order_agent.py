"""An agent that answers questions about orders: a program that reads one task and writes one answer.

    agent-eval run --suite examples/suite_agent.json --out runs/loop \\
      --agent-command "python examples/order_agent.py" --strict-side-effects --max-repairs 2

Its first answer is careless: it looks nothing up before it promises a refund. Told what the judges said, it
does better.
"""

from __future__ import annotations

import json
import sys


def answer(task: dict) -> dict:
    """The answer to a task, in the form that agent-eval reads."""
    order = task["input"]["order_id"]
    lookup = {"tool": "lookup_order", "arguments": {"order_id": order}}
    if task["mode"] == "propose" and task["input"]["request"] == "refund":
        return {"assistant_output": "Refunded!", "tool_calls": []}
    if task["input"]["request"] == "refund":
        complaints = [
            verdict["reason"]
            for attempt in task["previous_attempts"]
            for verdict in attempt["verdicts"]
            if not verdict["passed"]
        ]
        sys.stderr.write(f"repairing after: {'; '.join(complaints)}\n")
        refund = {"tool": "refund", "arguments": {"order_id": order, "reason": "damaged"}}
        return {"assistant_output": f"Order {order} is refunded.", "tool_calls": [lookup, refund]}
    return {"assistant_output": f"Order {order} is on its way.", "tool_calls": [lookup]}


if __name__ == "__main__":
    json.dump(answer(json.load(sys.stdin)), sys.stdout)
