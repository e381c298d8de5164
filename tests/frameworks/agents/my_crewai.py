"""CrewAI: agent objects."""

from __future__ import annotations

import os
from typing import Any, ClassVar

from crewai import LLM, Agent, Crew, Task
from crewai.project import CrewBase, agent, crew, task
from crewai.tools import tool
from tools import ALL, OrderStatus

TOOLS = [tool(each) for each in ALL]


def member(model: str, role: str = "support", **options: Any) -> Agent:
    llm = LLM(model=f"openai/{model}", base_url=os.environ["OPENAI_BASE_URL"], api_key="x")
    return Agent(
        role=role, goal="Help.", backstory="None.", llm=llm, tools=options.pop("tools", TOOLS), **options
    )


def team(*agents: Agent, **options: Any) -> Crew:
    what = Task(description="{input}", expected_output="An answer.", agent=agents[0], **options)
    return Crew(agents=list(agents), tasks=[what])


def polite(_: Any):
    return False, "it is not polite"


good = member("good")
worse = member("worse")
structured = team(good, output_pydantic=OrderStatus)
broken = member("broken")
guarded = team(good, guardrail=polite, guardrail_max_retries=1)
whole_crew = team(good)
without_a_place = Crew(agents=[good], tasks=[Task(description="Help.", expected_output="Help.", agent=good)])


@tool("ask_orders")
def ask_orders(question: str) -> str:
    """Ask about orders."""
    return str(team(good).kickoff(inputs={"input": question}))


nested = team(member("delegate", tools=[ask_orders]))
nested_in_a_tool = member("delegate", tools=[ask_orders])


@CrewBase
class Scaffolded:
    """As `crewai create` writes it."""

    agents_config: ClassVar[dict[str, Any]] = {}
    tasks_config: ClassVar[dict[str, Any]] = {}

    @agent
    def support(self) -> Agent:
        return member("good")

    @task
    def answer(self) -> Task:
        return Task(description="{input}", expected_output="An answer.", agent=self.support())

    @crew
    def crew(self) -> Crew:
        return Crew(agents=self.agents, tasks=self.tasks)
