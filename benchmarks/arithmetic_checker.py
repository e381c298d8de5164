"""A proof checker of the simplest kind: does a list of terms have the sum that it says?

    echo '{"terms": [19.9, 5], "sum": 24.9}' | python benchmarks/arithmetic_checker.py

It is the `lean` judge's checker in `benchmarks/judge_accuracy.py`. On input of another form it crashes.
"""

from __future__ import annotations

import json
import sys
from decimal import Decimal


def main() -> None:
    claim = json.load(sys.stdin, parse_float=Decimal, parse_int=Decimal)
    total = sum(claim["terms"], Decimal(0))
    passed = total == claim["sum"]
    reason = f"the terms add up to {total}" + ("" if passed else f" instead of {claim['sum']}")
    print(json.dumps({"passed": passed, "reason": reason}))


if __name__ == "__main__":
    main()
