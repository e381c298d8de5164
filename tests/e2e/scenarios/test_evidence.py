"""What judging models, keys and archives do to a change: whole jobs, numbered as in `test_scenarios`."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.e2e.runner import BASE_SHA, COMMAND, PULL, REPOSITORY, Runner, orders, unzipped, zipped
from tests.e2e.scenarios.repository import Evaluated, Job, Repository, broken, case
from tests.e2e.test_ci_agent import write
from tests.e2e.test_ci_signed import KEY, OTHER, PEM
from tests.fakes.github import FakeGitHub
from tests.fakes.models import FakeOpenAi, Step

RULING = Step(text=json.dumps({"reasoning": "It says so.", "evidence": [], "verdict": "passed"}))
FAILED = Step(text=json.dumps({"reasoning": "It does not.", "evidence": [], "verdict": "failed"}))
OTHER_WORDS = (
    "json.dump({'assistant_output': f'Near: {time.time_ns()}', "
    "'tool_calls': [{'tool': 'lookup_order', 'arguments': {}}]}, sys.stdout)\nsys.exit()\n"
)
DOWN = Step(status=503, headers={"Retry-After": "3600"})
GONE = Step(status=404, body=b'{"error": {"message": "no such model", "code": "model_not_found"}}')
MEASURED = "The base has no run; it was measured in this job."


@pytest.fixture(scope="module")
def served() -> Iterator[FakeOpenAi]:
    with FakeOpenAi(RULING) as server:
        yield server


@pytest.fixture
def model(served: FakeOpenAi) -> FakeOpenAi:
    """A model at the same address in all tests, which rules that all is well."""
    served.script = [RULING]
    served.requests.clear()
    return served


class Judged(Repository):
    """A repository whose cases a model judges, which main calls `old`."""

    def __init__(self, root: Path, model: FakeOpenAi) -> None:
        settings = {"judges": ["policy", "llm"], "judge_model.model": "old"}
        super().__init__(root, settings=settings, cases=2)
        self._environ = {
            "AGENT_EVAL_SET": f"judge_model.provider=openai\njudge_model.base_url={model.base_url}",
            "LLM_API_KEY": "sk-of-the-judge",
        }
        criterion = {"llm": [{"criterion": "The answer is polite."}]}
        rows = [case(number) for number in (1, 2)]
        rows = [{**row, "metadata": {**row["metadata"], **criterion}} for row in rows]
        self.write("suite.json", json.dumps({"dataset_id": "shop", "cases": rows}))
        self.commit("judged by a model")

    def job(self, **environ: str) -> Job:
        return super().job(**self._environ, **environ)

    def names(self, name: str) -> None:
        """Let the change name another model."""
        text = (self.top / "agent-eval.yml").read_text()
        self.write("agent-eval.yml", text.replace("model: old", f"model: {name}"))
        self.commit("another model")


NO_MODEL = "Model `old` does not exist any more; this change's was used."


@pytest.mark.parametrize(
    ("body", "policy", "status", "code", "sentence"),
    [
        ("", "preset: pull-request\n", "passed", 0, f"{NO_MODEL} Nothing broke."),
        (broken(1), "preset: pull-request\n", "failed", 1, f"{NO_MODEL} 1 case broke: `order-1`"),
        ("", "preset: release\ndeterministic: true\n", "inconclusive", 3, NO_MODEL),
    ],
    ids=["passes", "broken", "release"],
)
def test_a_model_of_main_that_is_gone_gives_way_to_the_changes(
    evaluated: Evaluated, model: FakeOpenAi, body: str, policy: str, status: str, code: int, sentence: str
) -> None:
    """Row 34."""
    repository = evaluated(Judged, model=model)
    repository.write("gate.yml", policy)
    repository.commit("rules")
    repository.topic(body)
    repository.names("new")
    model.script = [GONE, RULING]
    model.requests.clear()
    job = repository.job()
    assert (job.outcome, job.code) == (status, code), job.log
    assert job.sentence.startswith(sentence), job.log
    asked = [request["model"] for request in model.requests]
    assert (asked[0], set(asked[1:])) == ("old", {"new"})


def test_a_model_of_main_that_is_down_is_not_replaced(evaluated: Evaluated, model: FakeOpenAi) -> None:
    """Row 35: the job replaces a model only where the provider says that there is no such model."""
    repository = evaluated(Judged, model=model)
    repository.topic(OTHER_WORDS)
    repository.names("new")
    model.script = [DOWN]
    model.requests.clear()
    job = repository.job()
    assert {request["model"] for request in model.requests} == {"old"}
    assert (job.outcome, job.code) == ("error", 4), job.log
    assert "Mend the judge, or check that its model answers, then run again." in job.log


def test_a_model_that_is_down_in_the_reruns_settles_nothing(evaluated: Evaluated, model: FakeOpenAi) -> None:
    """Row 35, its other half."""
    repository = evaluated(Judged, model=model)
    repository.topic(OTHER_WORDS)
    model.script = [FAILED, FAILED, DOWN]
    job = repository.job()
    assert (job.outcome, job.code) == ("inconclusive", 3), job.log
    assert job.sentence.startswith("2 cases could not be judged: ")


def test_an_agent_that_writes_variables_of_later_steps_ends_the_job(runner: Runner) -> None:
    """Row 22."""
    variables = runner.root / "env"
    variables.write_text("")
    write(runner)
    runner.upload(runner.push(agent_command=COMMAND), 400)
    write(runner, f"open({str(variables)!r}, 'a').write('PATH=/elsewhere')\n")
    step = runner.pull_request(agent_command=COMMAND, environ={"GITHUB_ENV": str(variables)})
    assert (step.code, step.outcome) == (4, "error"), step.log
    assert "The agent wrote to a command file of the job: `GITHUB_ENV`." in step.log
    assert variables.read_text() == ""


@pytest.mark.parametrize(("bad", "status", "code"), [((), "passed", 0), ((2,), "failed", 1)])
def test_recorded_traces_whose_evidence_expired_are_compared_with_the_bases_own(
    runner: Runner, bad: tuple[int, ...], status: str, code: int
) -> None:
    """Row 54."""
    runner.commits_files = True
    runner.write_suite(*orders())
    runner.upload(runner.push(), 400, expired=True)
    runner.write_suite(*orders(bad=bad))
    step = runner.pull_request()
    assert (step.code, step.outcome) == (code, status), step.log
    assert MEASURED in step.log


@pytest.mark.parametrize("is_set_up", [True, False])
def test_a_base_without_a_run_is_measured_unless_this_change_sets_the_job_up(
    runner: Runner, is_set_up: bool
) -> None:
    runner.commits_files = True
    runner.write_suite(*orders())
    settings = runner.workspace / "agent-eval.yml"
    if is_set_up:
        settings.write_text("ci: {title: Shop}\n")
    runner.commit_to_main()
    settings.write_text("ci: {title: Shop}\n")
    runner.write_suite(*orders(bad=(2,)))
    step = runner.pull_request()
    assert (MEASURED in step.log) is is_set_up
    assert (step.code, step.outcome) == ((1, "failed") if is_set_up else (0, "no-baseline")), step.log


def test_a_baseline_signed_by_the_key_before_is_used_while_both_are_named(runner: Runner) -> None:
    """Row 60."""
    both = OTHER.public.pem + KEY.public.pem
    runner.github.add_run(400, head_sha=BASE_SHA)
    runner.write_suite(*orders())
    (runner.workspace / "evidence.pub").write_bytes(both)
    runner.github.files["evidence.pub"] = both
    runner.upload(runner.push(signing_key=PEM), 400)
    step = runner.pull_request(baseline_public_key="evidence.pub", signing_key=OTHER.pem().decode())
    assert (step.code, step.outcome) == (0, "passed"), step.log
    assert "Nothing broke." in step.log


def test_an_archive_with_two_packs_of_one_dataset_is_refused(runner: Runner, github: FakeGitHub) -> None:
    """Row 61."""
    runner.write_suite(*orders())
    first = runner.push()
    files = unzipped(first.archive)
    twice = {name.replace("shop/", "again/", 1): data for name, data in files.items()}
    github.add_artifact(400, zipped({"evidence.zip": zipped({**files, **twice})}))
    step = runner.pull_request()
    assert (step.code, step.outcome) == (4, "error"), step.log
    assert "has `shop` twice" in github.bodies(PULL)[0]


def test_a_change_whose_target_becomes_main_is_held_to_main(runner: Runner, github: FakeGitHub) -> None:
    """Row 43: the same commit again, as the files for GitHub run on the event `edited`."""
    usual = {"max_regressed_cases": "", "max_new_hard_fail_cases": ""}
    github.files["agent-eval.yml"] = b"policy: {max_regressed_cases: 0}\n"
    runner.write_suite(*orders())
    runner.upload(runner.push(**usual), 400)
    runner.write_suite(*orders(bad=(2,)))
    assert "`lax` is no trusted branch: held to main." in runner.pull_request(into="lax", **usual).log
    step = runner.pull_request(run_id=501, into="main", **usual)
    assert (step.code, step.outcome) == (1, "failed"), step.log
    assert "held to main" not in step.log
    runs_on = [
        yaml.safe_load(path.read_text())[True] for path in (REPOSITORY / "ci-templates").glob("github*.yml")
    ]
    of_changes = [on["pull_request"] for on in runs_on if "pull_request" in on]
    assert of_changes
    assert all("edited" in on["types"] for on in of_changes)
