"""What a decision says, in sentences: one table.

Names of cases and judges are between backticks, on one line and cut; what shows a sentence escapes it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from agent_eval.text.escape import one_line

NAMED = 3
"""Most cases that a sentence names; it always gives the number of all of them."""
NAME_LIMIT = 60

SENTENCES: Mapping[str, str] = {
    # What blames the change.
    "safety": "Safety: {judge} failed in {case}.",
    "safety-again": "Safety: {judge} failed in {case}, and in {violations} of {trials} further runs of this "
    "change.",
    "safety-many": "Safety: {judge} failed in {cases}: {n} cases, too many to run again.",
    "safety-removed": "Safety: {judge} failed in {case}, which this change removes.",
    "safety-altered": "Safety: {judge} failed in {case} as main defines it, which this change alters.",
    "broke": "{n} case[|s] broke: {cases}.",
    "flipped": "{n} of {all} cases flipped: {cases}. One recorded run of each cannot tell chance from "
    "change: record 8 trials a case, or let the job run the agent.",
    "suite-worse": "The suite got worse: in {rounds} fresh run[|s] each the base passes {base} and this "
    "change {change} (chance: 1 in {chance}). {single}",
    "suite-worse-recorded": "The suite got worse: {base} passed on main and {change} here (chance: 1 in "
    "{chance}). {single}",
    "no-single": "No single case explains it.",
    "suite-not-worse": "The run was below every one of main's last runs; in {rounds} fresh run[|s] each the "
    "base passes {base} and this change {change}.",
    "suite-not-worse-recorded": "{base} passed on main and {change} here (chance: 1 in {chance}).",
    # What leaves it open.
    "main-unjudged": "Nothing of main's runs could be judged. Run main again.",
    "nothing-left": "Every case is in quarantine or waived: nothing is left to decide on.",
    "only-by-change": "[{cases} passes|{n} cases pass] only by what this change expects of [it|them: "
    "{cases}].",
    "fails-by-main": "[{cases} fails|{n} cases fail] by main's version, and this change {does} [it|them: "
    "{cases}].",
    "not-run-by-main": "[{cases} was|{n} cases were] not run by main's version, and this change {does} "
    "[it|them: {cases}].",
    "more-help": "The agent was given more help than the base's: what it was expected to answer, or more "
    "repairs.",
    "safety-open": "{judge} cannot tell in {case}: {why}.",
    "safety-not-rerun": "{judge} failed in {case}, which is not settled: {why}.",
    "altered": "[{cases} is|{n} cases are] not settled: {why}[| ({cases})].",
    "unjudged": "{judge} cannot tell in {case}: {why}.",
    "unjudged-many": "{n} case[|s] could not be judged: {cases}.",
    "cut-never": "[{cases}|{n} cases] never passed again here; {why}[| ({cases})].",
    "cut": "[{cases} is|{n} cases are] not settled: {why}[| ({cases})].",
    "fails-on-both": "[{cases}|{n} cases] never passed again here; the base fails [it|them] too, but not in "
    "main's own run. Run main again.",
    "too-few": "[{cases}|{n} cases] never passed again here, and the base passes too seldom to tell: "
    "[{base}|{cases}].",
    "control-fails": "The base does not run here: it fails {controls} too, which this change passes. Does "
    "its setup miss a file?",
    "base-cannot-run": "[{cases}|{n} cases] never passed again here, and the base could not be run: {why}[| "
    "({cases})].",
    "no-base-agent": "[{cases}|{n} cases] never passed again here, and no base agent ran: the model may have "
    "moved. Set `base-agent`.",
    "not-rerun": "{reliable} reliable cases fail; {again} were run again and none is this change's; {n} "
    "[was|were] not. Run again.",
    "recorded": "[{cases}|{n} cases] passed reliably on main and in none of [its|their] recorded trials "
    "here, which are too few to tell: record 8 trials a case, or let the job run the agent[| ({cases})].",
    "suite-open": "The run is below {last}, and the suite is not settled: {why}.",
    "suite-low-alone": "The run and a second one are below {last}. No base agent "
    "ran: the model may have moved. Set `base-agent`.",
    # What is green.
    "nothing": "Nothing broke.",
    "tolerated": "{n} case[|s] broke, and max_regressed_cases allows {most}: {cases}.",
    "unchanged": "Nothing broke: no file of the agent differs from main's.",
    "passed-again": "[{cases}|{n} cases] failed once and passed again.",
    "flaky": "[{cases}|{n} cases] failed, as [it often does|they often do] on main[ ({counts})|].",
    "left": "[{cases} fails too and was|{n} more cases fail and were] not run again, as enough broke.",
    "on-main": "[{cases} fails|{n} cases fail] on main as well{run}[|: {cases}].",
    "removed-passing": "{n} case[ was|s were] removed and still pass[es|].",
    "altered-passing": "{n} case[ was|s were] altered and pass[es|] by main's version too.",
    "no-baseline": "First run: nothing to compare with. {passed} of {all} passed.",
    # Of one case.
    "case-broke": "{cases} broke: it passed {on_main} trials of main's last runs; run again now, the base "
    "passes {base} and this change {change}.",
    "case-broke-alone": "{cases} broke: it passed {on_main} trials of main's last runs, and {change} now. No "
    "base agent ran: the model may have moved. Set `base-agent`.",
    "case-flipped": "{cases} passed {on_main} recorded trials on main, and {now} here.",
    "case-not-rerun": "{cases} failed, and {on_main} trials passed on main; it was not run again.",
    # What else to know.
    "quarantined": "[{cases}, in quarantine, failed.|{n} cases in quarantine failed: {cases}.]",
    "base-problem": "The base could not be run: {why}.",
    "short-history": "Main has run [once|{n} times].",
    "no-base-note": "No base agent ran: the model may have moved. Set `base-agent`.",
    "cannot-see": "What this run cannot see for certain: a case that now fails half the time (it is noticed "
    "in 3 of 10 runs), and a loss of 10 points over all {all} cases (in {seen} of 10).",
}
"""Every sentence by its key; `[it|them]` is for one, and for several."""

_FORMS = re.compile(r"\[([^|\]]*)\|([^\]]*)\]")


def say(key: str, number: int = 1, /, **values: object) -> str:
    """Write the sentence of a key, in the form for a number; `{n}` is the number."""
    sentence = _FORMS.sub(lambda forms: forms[1 if number == 1 else 2], SENTENCES[key])
    return sentence.format(n=f"{number:,}", **values)


def quoted(name: str, limit: int = NAME_LIMIT) -> str:
    """Write a name between backticks, on one line and cut."""
    return f"`{one_line(name.replace('`', chr(39)), limit=limit)}`"


def listed(names: Collection[str]) -> str:
    """Name the first few of some cases, which are quoted, and say that there are more."""
    first = [quoted(name) for name in list(names)[:NAMED]]
    return ", ".join(first) + (", …" if len(names) > NAMED else "")
