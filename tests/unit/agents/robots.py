"""A framework of the tests' own, with its adapter, in the file that names its agents."""

from __future__ import annotations

from pathlib import Path

ADAPTER = """
import asyncio, itertools, sys, types
from agent_eval.agents.frameworks import catalog
from agent_eval.agents.frameworks.conversation import Conversation, in_place_of, in_progress
from agent_eval.agents.frameworks.trajectory import Call, Thought, tokens

class Robot:
    def move(self, where, **options): return where, options

PRESENT = []
USAGE = {"in": 3, "details": types.SimpleNamespace(out=1), "rows": [{"n": 7}]}

async def look(): return "seen"
async def fail(): raise LookupError("gone")

@in_place_of(Robot, "move")
def move(real, conversation, robot, /, *arguments, **options):
    conversation.said.append([*real(robot, *arguments, **options)])

class RobotConversation(Conversation):
    @classmethod
    def unable(cls, agent): return agent.unable

    def begin(self):
        self.said, self.ids = [], itertools.count()

    async def say(self, given):
        self.said.append(given)
        steps = self.trajectory
        steps.add("agent", "reasoning", output="hm")
        if given == "loop":
            while True:
                steps.answered(Call("spin", {}, "same"), usage={"input_tokens": 3})
                steps.result("same", 1)
                await asyncio.sleep(0)
        if given == "crash":
            steps.answered("I try.", Call("shut", {}, "x"))
            steps.result("x", error=OSError("closed"))
            raise ValueError("no \\\\udcff")
        if given == "leave": sys.exit(3)
        if given == "cut": return steps.answered("First of", stop_reason="length")
        if given == "odd": return steps.answered("First of", stop_reason="tired")
        if given == "nothing": return None
        if given == "parallel":
            calls = Call("a", '{"n": 1}', "i"), Call("b", {1, 2}, "j", "no JSON")
            steps.answered(Thought("Two."), Thought(None), "Bo", "th.", *calls, model="m")
            steps.result("j", {"at": Robot}); steps.result("i", "one")
        if given == "structured":
            steps.answered(Call("Answer", {"n": 1}, "i"), usage={"input_tokens": 3})
            steps.is_the_answer("i")
            return {"n": 1}
        if given == "written":
            steps.answered('{"n": 1}')
            return {"n": 1}
        if given == "apart":
            assert in_progress() is self
            for _ in range(2): await asyncio.get_running_loop().run_in_executor(None, in_progress)
        if given == "no ids":
            calls = [Call("look", {"n": n}, f"i{n}") for n in (1, 2)]
            steps.answered(*calls, usage=tokens(USAGE, "in details.out details.cached rows.0.n"))
            for n in (2, 3): steps.result(steps.running("look", {"n": n}), n)
            assert steps.running("look", {"n": 1}) is None
        if given == "blocks":
            steps.answered(Call("lookup", {"id": 7}, "i"))
            return await asyncio.to_thread(self.answer_here, "lookup", {"id": 7}, "i")
        if given in ("asks", "fails"):
            steps.answered(Call("lookup", {"id": 7}, "i"))
            return await self.carry_out("lookup", {"id": 7}, "i", look if given == "asks" else fail)
        if given == "waits":
            self.must_not_wait(["approve the refund"])
        if given == "patched":
            robot.move("here", conversation="of ours")
            return self.said[-1]
        if given == "overlaps":
            PRESENT.append(given)
            await asyncio.sleep(0.05)
            return f"{len(PRESENT)} {PRESENT.pop()}"
        loop = id(asyncio.get_running_loop())
        return f"{self.said} {loop}" if given == "where" else str(self.said)

class Lonely(RobotConversation, Conversation): one_at_a_time = True
class LonelyRobot(Robot): pass

for kind, conversation in (Robot, RobotConversation), (LonelyRobot, Lonely):
    name = conversation.__module__ = f"agent_eval.agents.frameworks.{kind.__name__}"
    sys.modules[name] = type(sys)(name)
    catalog._BY_CLASS[f"{__name__}.{kind.__name__}"] = catalog.Framework("Robots", kind.__name__, ())
robot = Robot(); robot.unable = {}
lonely = LonelyRobot(); lonely.unable = {}
unable = Robot(); unable.unable = {"answers": "answers of tools", "turns": "turns"}
def make(): return robot
def moves_first():
    assert robot.move("away", step=1) == ("away", {"step": 1})
    return robot
def fails_to_make(): raise RuntimeError("no battery")
class Mute(Exception):
    def __str__(self): raise OSError
def is_mute(): raise Mute
number = 3
"""


def put_robots(folder: Path) -> None:
    """Write `robots.py`, whose agents are `robot` and `unable`."""
    (folder / "robots.py").write_text(ADAPTER)
