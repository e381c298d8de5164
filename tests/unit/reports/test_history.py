"""A history as people read it: words, the terminal."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent_eval.history.board import Board, board
from agent_eval.operations.history import history_json
from agent_eval.reports.history import Series, cell, costs, history_view, latencies, placed, trend_words
from agent_eval.reports.html.page import render_html
from agent_eval.reports.model import EvaluationReport, SuiteHistory
from agent_eval.reports.terminal_history import history_text
from tests.unit.history.made import made_case, made_run
from tests.unit.reports import scenarios
from tests.unit.reports.html.pages import parsed

HOSTILE = "\x1b[2Jrefund\n</svg><script>alert(1)</script>"


def shop(runs: int = 8) -> Board:
    """Runs in which `refund` fails every third time, and ten others pass."""
    return board([_run(number) for number in range(runs)][::-1])


def _run(number: int):  # type: ignore[no-untyped-def]
    return made_run(number, {"refund": (number % 3 > 0, 1), **{f"case-{each}": (1, 1) for each in range(10)}})


def test_a_sparkline_has_a_bar_for_each_run() -> None:
    assert Series([0.0, 0.5, 1.0, None]).sparkline == "▁▅█·"
    assert Series([0.9, 0.9]).sparkline == "▄▄"
    assert Series([None]).sparkline == "·"


def test_the_trend_says_that_the_newest_run_is_below_all_before() -> None:
    records = [made_run(number, {"a": (9 + number % 2, 10)}) for number in range(6)]
    low = [*records, made_run(6, {"a": (5, 10)})]
    words = trend_words(board(low[::-1]))
    assert words == "50.0% in the newest run, below each of the 6 runs before; 7 runs: 50.0% to 100%"
    assert words in "\n".join(history_text(board(low[::-1]), "shop"))
    assert "below" not in trend_words(board(records[::-1]))
    assert "below" not in trend_words(board(low[4:][::-1])), "two runs before are too few"


def test_a_run_is_placed_among_the_last_twenty_of_its_key() -> None:
    earlier = [_run(number) for number in range(30)][::-1]
    assert placed(_run(40), earlier, "main") == "100%; main's last 20 runs: 90.9% to 100%"
    other = made_run(41, {"refund": (1, 1)}, key="other")
    assert placed(other, earlier, "main") == ""
    assert placed(_run(40), earlier[1:2], "main") == "100%; main's last run: 100%"
    low = made_run(41, {f"case-{each}": (each > 3, 1) for each in range(10)})
    assert placed(low, earlier, "main").endswith(", so this is below them all")


def test_cost_is_summed_and_latency_is_a_median_where_they_are_known() -> None:
    run = made_run(1, {"a": (1, 1), "b": (1, 1), "c": (1, 1)})
    run.cases["a"] = made_case("a", 1, 1, cost_usd=0.25, latency_ms=1000.0)
    run.cases["b"] = made_case("b", 1, 1, cost_usd=0.5, latency_ms=3000.0)
    assert (costs([run]).newest, latencies([run]).newest) == (0.75, 2.0)
    assert costs([made_run(2, {"a": (1, 1)})]).newest is None


@pytest.mark.parametrize(
    ("passed", "scored", "character"), [(4, 4, "."), (0, 4, "x"), (2, 4, "5"), (99, 100, "9"), (0, 0, "?")]
)
def test_a_cell_says_by_its_character_what_passed(passed: int, scored: int, character: str) -> None:
    assert cell(made_case("a", passed, scored)) == character


def alternating(runs: int = 8):  # type: ignore[no-untyped-def]
    """Runs of two keys in turn, the newest first; those of the other key pass less often."""
    keys = ["0f" * 8, "a1" * 8]
    return [
        made_run(number, {"a": (9 - 4 * (number % 2 == runs % 2), 9)}, key=keys[number % 2])
        for number in range(runs)
    ][::-1]


def test_a_history_looks_as_agreed_with_runs_of_another_key_in_brackets(golden) -> None:  # type: ignore[no-untyped-def]
    older = [*alternating(8)[::2], *alternating(8)[1::2]]
    spent = [made_run(number, {"a": (1, 1)}) for number in range(3)]
    for number, run in enumerate(spent):
        run.cases["a"] = made_case("a", 1, 1, cost_usd=0.25 * number, latency_ms=1000.0 * (3 - number))
    boards = (shop(), board(alternating(5)), board(older), board(spent[::-1]), board([]))
    text = "\n\n".join("\n".join(history_text(each, "shop")) for each in boards)
    assert "\x1b" not in text
    golden("terminal/history.txt", f"{text}\n")


def test_trend_and_json_are_of_the_newest_key_where_keys_alternate() -> None:
    shown = board(alternating(10))
    assert trend_words(shown) == "100% in the newest run; 5 runs: 100%"
    assert [run["counted"] for run in history_json(shown)["runs"]] == [False, True] * 5


def test_the_page_marks_runs_of_another_key_and_draws_a_line_for_each() -> None:
    runs = alternating(10)
    view = history_view(SuiteHistory(own=runs[0], earlier=runs[1:]))
    assert view["other_keys"] == 5
    chart = view["charts"][0]
    assert [point.css_class for point in chart.points] == [*["other", ""] * 4, "other", "own"]
    assert [len(line.split()) for line in chart.lines] == [5, 5]


def test_points_have_dates_and_commits_and_lead_to_their_runs() -> None:
    address = "https://ci.example.org/runs/{}"
    runs = [
        made_run(number, {"a": (1, 1)}, git_commit=f"{number:x}" * 40, run_url=address.format(number))
        for number in range(9)
    ]
    runs[3] = made_run(3, {"a": (1, 1)}, run_url="javascript:alert(1)")
    history = SuiteHistory(own=runs[8], earlier=runs[7::-1])
    suite = replace(scenarios.regressed_suite(), history=history)
    page = render_html(EvaluationReport(title="t", suites=[suite]))
    chart = parsed(page).all("svg")[0]
    led = [address.format(number) for number in range(9) if number != 3]
    assert [link.attributes["href"] for link in chart.all("a")] == led
    labels = [text.words for text in chart.all("text", class_="of")]
    assert labels[-4:] == ["2026-11-07", "6666666", "2026-11-09", "8888888"]


def test_colour_adds_no_word() -> None:
    coloured = "\n".join(history_text(shop(), "shop", colour=True))
    for code in ("\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[0m"):
        coloured = coloured.replace(code, "")
    assert coloured == "\n".join(history_text(shop(), "shop"))


def test_names_from_a_record_reach_no_terminal_raw() -> None:
    hostile = made_run(1, {HOSTILE: (0, 1)}, model=HOSTILE, run_id=HOSTILE, git_commit=None)
    lines = history_text(board([hostile]), HOSTILE)
    assert not any("\x1b" in line or "\n" in line for line in lines)


def test_new_and_changed_cases_do_not_move_the_rate_that_is_placed() -> None:
    earlier = [_run(number) for number in range(8)][::-1]
    own = _run(20)
    own.cases["new"] = made_case("new", 0, 1)
    own.cases["case-1"] = made_case("case-1", 0, 1, definition="cd" * 6)
    assert placed(own, earlier, "main") == "100%; main's last 8 runs: 90.9% to 100%"
    assert placed(made_run(20, {"new": (0, 1)}), earlier, "main") == ""


def test_a_case_is_called_what_its_last_trials_say() -> None:
    def case(number: int) -> dict[str, tuple[int, int]]:
        return {"good": (1, 1), "flaky": (number % 2, 1), "bad": (0, 1), "held": (0, 1)}

    runs = [made_run(number, case(number)) for number in range(12)]
    runs.append(made_run(12, {**case(12), "young": (1, 1)}))
    table = board(runs[::-1], quarantined=["held"])
    assert {row.case_id: row.kind for row in table.cases} == {
        "good": "steady", "flaky": "flaky", "bad": "failing", "held": "quarantined", "young": "new",
    }  # fmt: skip
    words = "1 steady, 1 flaky, 1 failing, 1 new, 1 quarantined"
    assert f"By their last 20 trials: {words}" in history_text(table, "shop")
