"""Which earlier run becomes the baseline, and what a search that finds none is allowed to mean."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_eval.ci.baseline import (
    MAX_LOOKED_AT,
    MAX_OPENED,
    Ground,
    Lack,
    Origin,
    Search,
    find_baselines,
    find_named,
    from_path,
)
from agent_eval.ci.earlier import Asked, EarlierRun, Expired, NoHistory, Skipped, Withheld
from agent_eval.errors import AgentEvalError, InvalidInput, RemoteError, UsageError
from tests.e2e.runner import orders
from tests.unit.ci.evaluations import evidence


@pytest.fixture(autouse=True)
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def archive() -> bytes:
    """What a run of the suite `shop` left."""
    return Path(evidence()).read_bytes()


def run(number: int, found: bytes | Exception) -> EarlierRun:
    def fetch() -> bytes:
        if isinstance(found, Exception):
            raise found
        return found

    return EarlierRun(number=number, label=f"run {number}", commits=frozenset(), fetch=fetch)


def ground(*wanted: str) -> Ground:
    """Outside of a repository, where every run counts and the newest comes first."""
    remedy = "Give the job `actions: read`."
    return Ground(place=None, wanted=wanted or ("shop",), remedy=remedy)


def search(*runs: EarlierRun, wanted: tuple[str, ...] = ("shop",)) -> Search:
    return find_baselines(lambda _: runs, ground(*wanted))


def origins(found: Search) -> dict[str, int | None]:
    return {slug: baseline.origin.run_id for slug, baseline in found.baselines.items()}


def test_the_first_run_with_evidence_is_the_baseline_and_no_other_is_read(archive: bytes) -> None:
    found = search(run(2, archive), run(1, AssertionError("was read")))
    assert origins(found) == {"shop": 2}
    assert (found.looked_at, found.outage) == (1, None)
    assert found.notes == found.warnings == found.withheld == []
    assert found.gone == set()
    assert not found.baselines["shop"].named_by_user


def test_a_run_without_evidence_is_noted_and_one_whose_evidence_is_withheld_warned_of(archive: bytes) -> None:
    nothing, foreign = run(3, Skipped("Run 3 left nothing.")), run(2, Withheld("Run 2 is foreign."))
    found = search(nothing, foreign, run(1, archive))
    assert (origins(found), found.looked_at) == ({"shop": 1}, 3)
    assert (found.notes, found.warnings) == (["Run 3 left nothing."], ["Run 2 is foreign."])
    assert "does not verify and was not used" in search(run(4, b"no archive")).warnings[0]
    # A run that has none says nothing of whether there is a baseline.
    assert search(nothing).outage is None


def test_a_suite_without_a_baseline_beside_withheld_evidence_is_an_outage(archive: bytes) -> None:
    runs = (run(2, Withheld("Run 2 is cut.")), run(1, archive))
    assert search(*runs).outage is None
    assert search(*runs, wanted=("shop", "bank")).outage is not None


def test_a_suite_that_a_run_lacks_is_looked_for_in_older_runs(archive: bytes) -> None:
    both = Path(evidence(bank=orders(1))).read_bytes()
    found = search(run(2, archive), run(1, both), wanted=("shop", "bank"))
    assert origins(found) == {"shop": 2, "bank": 1}
    assert found.notes == ["Run 2 has no evidence of `bank`."]
    assert found.gone == set()


def test_suites_that_are_not_evaluated_any_more_are_those_of_the_best_evidence(archive: bytes) -> None:
    both = Path(evidence(bank=orders(3), help=orders(1))).read_bytes()
    assert search(run(2, both)).gone == {"bank", "help"}
    assert search(run(2, both), wanted=("shop", "bank")).gone == {"help"}
    found = search(run(3, Skipped("Nothing.")), run(2, both), run(1, archive), wanted=("shop", "new"))
    assert found.gone == {"bank", "help"}


def test_so_many_runs_with_evidence_are_read_and_a_suite_that_none_has_is_new(archive: bytes) -> None:
    runs = [run(-number, archive) for number in range(MAX_OPENED + 3)]
    found = search(*runs, wanted=("shop", "new"))
    assert (found.looked_at, origins(found), found.outage) == (MAX_OPENED, {"shop": 0}, None)
    assert found.notes[-1] == "Looked at 3 earlier runs, no further."


def test_so_many_runs_are_looked_at() -> None:
    runs = [run(-number, Skipped("Nothing.")) for number in range(MAX_LOOKED_AT + 5)]
    found = search(*runs)
    assert found.looked_at == MAX_LOOKED_AT
    assert found.notes[-1] == "Looked at 20 earlier runs, no further."


def test_a_search_ends_where_the_evidence_of_so_many_runs_is_withheld(archive: bytes) -> None:
    cut = [run(-number, Withheld("Cut.")) for number in range(MAX_OPENED)]
    found = search(*cut, run(-MAX_OPENED, archive))
    assert (found.looked_at, found.baselines, found.outage is None) == (MAX_OPENED, {}, False)
    assert origins(search(*cut[1:], run(-MAX_OPENED, archive))) == {"shop": -MAX_OPENED}


UNJUDGED = [{**case, "trace": []} for case in orders()]


def test_runs_that_are_no_baseline_do_not_count_among_those_that_were_read(archive: bytes) -> None:
    unjudged = Path(evidence(UNJUDGED)).read_bytes()
    runs = [run(-number, unjudged) for number in range(MAX_OPENED)]
    assert origins(search(*runs, run(-MAX_OPENED, archive))) == {"shop": -MAX_OPENED}


def test_a_run_that_is_no_baseline_for_a_suite_that_has_one_is_not_spoken_of(archive: bytes) -> None:
    both = Path(evidence(UNJUDGED, bank=orders(1))).read_bytes()
    found = search(run(2, archive), run(1, both), wanted=("shop", "bank"))
    assert (origins(found), found.warnings) == ({"shop": 2, "bank": 1}, [])


def test_a_job_that_cannot_read_earlier_runs_has_none_and_says_why() -> None:
    def refuse(_: Asked) -> list[EarlierRun]:
        raise NoHistory("Outside CI there are none.")

    found = find_baselines(refuse, ground())
    assert (found.looked_at, found.notes, found.outage) == (None, ["Outside CI there are none."], None)
    assert found.lack("shop") is Lack.UNASKED


def test_a_listing_that_breaks_off_says_nothing_of_which_run_is_the_nearest(archive: bytes) -> None:
    def one_then_failure(_: Asked) -> Iterator[EarlierRun]:
        yield run(2, archive)
        raise RemoteError("It is down.", remedy="Wait.")

    found = find_baselines(one_then_failure, ground())
    assert found.baselines == {}
    assert found.outage is not None


def test_a_run_that_the_user_named_is_the_baseline_or_an_error(archive: bytes) -> None:
    named = find_named(run(7, archive), ground())
    assert named.baselines["shop"].named_by_user
    assert named.baselines["shop"].origin.how == "named run"
    reached = RemoteError("storage is down", remedy="Try later.")
    cut = Withheld("The evidence of run 7 could not be read.")
    cut.__cause__ = reached
    for found, kind, said in [
        (Skipped("Run 7 left nothing."), UsageError, "cannot be used: Run 7 left nothing."),
        (Withheld("Run 7 is cut."), UsageError, "cannot be used: Run 7 is cut."),
        (cut, RemoteError, "The evidence of run 7 could not be read."),
        (b"no archive", InvalidInput, "is not a zip archive"),
    ]:
        with pytest.raises(AgentEvalError, match=said) as refused:
            find_named(run(7, found), ground())
        assert isinstance(refused.value, kind)
        assert refused.value.remedy
    with pytest.raises(UsageError, match="run 7 has no evidence of bank"):
        find_named(run(7, archive), ground("bank"))
    with pytest.raises(UsageError, match="Run 7 is no baseline for `shop`: none of its cases could be"):
        find_named(run(7, Path(evidence(UNJUDGED)).read_bytes()), ground())


def test_what_is_lacking_is_told_apart(archive: bytes) -> None:
    first = search()
    assert (first.lack("shop"), first.looked_at, first.outage, first.gone) == (Lack.FIRST, 0, None, None)
    assert search(run(2, Skipped("Run 2 left nothing."))).lack("shop") is Lack.FIRST
    lost = search(run(2, Expired("The artifacts of run 2 have expired.")), run(1, Skipped("Nothing.")))
    assert lost.lack("shop") is Lack.LOST
    assert lost.lost == lost.notes[:1] == ["The artifacts of run 2 have expired."]
    found = search(run(2, archive), wanted=("shop", "new"))
    assert (found.lack("shop"), found.lack("new")) == (None, Lack.NEW_SUITE)
    # What is withheld is an outage, whatever else was lost.
    withheld = search(run(2, Withheld("Run 2 is cut.")), run(1, Expired("Run 1 has expired.")))
    assert (withheld.lack("shop"), withheld.outage is None) == (None, False)


def test_a_baseline_at_a_path_is_an_archive_a_directory_of_packs_or_a_pack() -> None:
    archive = Path(evidence(bank=orders(1)))
    with zipfile.ZipFile(archive) as opened:
        opened.extractall("packs")
    Path("packs/notes").mkdir()
    for where in (archive, Path("packs")):
        found = from_path(where, ["shop", "new"])
        baseline = found.baselines["shop"]
        assert (baseline.origin, baseline.named_by_user) == (Origin(how="path"), True)
        assert found.notes == ["The baseline at the given path has no evidence of `new`."]
        assert (found.gone, found.outage) == ({"bank"}, None)
    alone = from_path(Path("packs/shop"), ["shop"])
    assert (list(alone.baselines), alone.notes, alone.gone) == (["shop"], [], set())


def test_a_baseline_at_a_path_that_is_missing_foreign_or_unfit_is_refused() -> None:
    archive = Path(evidence(bank=orders(1)))
    with pytest.raises(InvalidInput, match="does not exist") as missing:
        from_path(Path("nowhere"), ["shop"])
    assert missing.value.details["field"] == "baseline"
    with pytest.raises(InvalidInput, match="no evidence of new, old; it has: bank, shop") as foreign:
        from_path(archive, ["new", "old"])
    assert foreign.value.details["field"] == "baseline"
    with pytest.raises(UsageError, match="is no baseline for `bank`: none of its cases could be judged"):
        from_path(Path(evidence(bank=UNJUDGED)), ["shop", "bank"])
