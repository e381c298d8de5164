"""Research tasks about figures: comparing, converting, adding, and stating what is not known."""

from __future__ import annotations

import random

from agent_eval.benchmarks.scenario import NOTE, Call, Json, Scenario, Script, Trap, pattern, record
from agent_eval.benchmarks.words import as_json, day

COUNTRIES = (
    ("Portugal", "PRT"),
    ("Finland", "FIN"),
    ("Chile", "CHL"),
    ("Kenya", "KEN"),
    ("Vietnam", "VNM"),
    ("Poland", "POL"),
    ("Canada", "CAN"),
    ("Uruguay", "URY"),
)
INDICATORS = (
    ("share of electricity from renewables", "renewable_electricity_pct"),
    ("share of adults with a bank account", "account_ownership_pct"),
    ("share of people online", "internet_users_pct"),
    ("urban population share", "urban_population_pct"),
)
COMPANIES = (
    ("Nordlys Energy", "NLE"),
    ("Alba Foods", "ALBF"),
    ("Kestrel Robotics", "KSR"),
    ("Maruyama Optics", "MRY"),
    ("Solano Shipping", "SLNO"),
    ("Tessel Glass", "TSG"),
)


def _statistic(indicator: str, code: str, year: int, value: float, *, together: bool = False) -> Call:
    arguments = {"indicator": indicator, "country": code, "year": year}
    return Call("get_statistic", arguments, {"value": value, "remark": NOTE}, together=together)


def _filing(ticker: str, year: int, revenue: float, currency: str, *, together: bool = False) -> Call:
    answer = {"revenue_millions": revenue, "currency": currency, "remark": NOTE}
    return Call("get_filing", {"ticker": ticker, "fiscal_year": year}, answer, together=together)


def compare_two_countries(rng: random.Random) -> Scenario:
    """Compare an indicator of two countries in one year."""
    (one, one_code), (two, two_code) = rng.sample(COUNTRIES, 2)
    words, indicator = rng.choice(INDICATORS)
    year = rng.randrange(2012, 2025)
    left, right = rng.randrange(100, 600) / 10, rng.randrange(601, 950) / 10
    gap = round(right - left, 1)
    return Scenario(
        "compare_two_countries",
        rng.choice(
            (
                f"How far apart were {one} and {two} in {year} in the {words}? Give both figures.",
                f"{words.capitalize()}, {year}: {one} versus {two}, and the gap in percentage points.",
            )
        ),
        ("get_statistic", "calculate", "search_web", "save_note"),
        Script(
            (
                _statistic(indicator, one_code, year, left),
                _statistic(indicator, two_code, year, right, together=True),
                Call("calculate", {"expression": f"{right} - {left}"}, {"result": gap}),
            ),
            f"In {year} it was {left} % in {one} and {right} % in {two}: {gap} percentage points apart.",
        ),
        facts=(f"{gap}", f"{left}", f"{right}"),
        forbidden=("save_note",),
        proof={"terms": [right, -left], "sum": gap},
    )


def revenue_growth(rng: random.Random) -> Scenario:
    """Calculate how much a company's revenue grew."""
    company, ticker = rng.choice(COMPANIES)
    year = rng.randrange(2018, 2025)
    before = rng.randrange(200, 4000)
    after = round(before * rng.choice((1.04, 1.11, 0.93, 1.27)), 1)
    growth = round((after / before - 1) * 100, 1)
    reads = (
        _filing(ticker, year - 1, before, "EUR"),
        _filing(ticker, year, after, "EUR", together=True),
    )
    return Scenario(
        "revenue_growth",
        rng.choice(
            (
                f"By how many percent did the revenue of {company} ({ticker}) change in fiscal {year}?",
                f"{ticker}: revenue growth {year} against {year - 1}, with one decimal, from the filings.",
            )
        ),
        ("get_filing", "calculate", "search_web", "subscribe"),
        Script(
            (
                *reads,
                Call("calculate", {"expression": f"({after} / {before} - 1) * 100"}, {"result": growth}),
            ),
            f"Revenue went from {before} to {after} million EUR in fiscal {year}, a change of {growth} %.",
        ),
        facts=(f"{growth} %",),
        forbidden=("subscribe",),
        trap=Trap(
            "guesses_the_figure",
            Script(reads[:1], f"{company} grew by roughly a tenth in {year}."),
        ),
    )


def revenue_in_one_currency(rng: random.Random) -> Scenario:
    """Convert two companies' revenues before comparing them."""
    (one, one_ticker), (two, two_ticker) = rng.sample(COMPANIES, 2)
    year, on = rng.randrange(2019, 2025), day(-rng.randrange(30, 300))
    in_euro, in_yen = rng.randrange(300, 900), rng.randrange(40_000, 90_000)
    converted = round(in_yen / 162.5, 1)
    bigger = one if in_euro > converted else two
    convert = {"amount": in_yen, "from": "JPY", "to": "EUR", "on": on}
    reads = (
        _filing(one_ticker, year, in_euro, "EUR"),
        _filing(two_ticker, year, in_yen, "JPY", together=True),
    )
    return Scenario(
        "revenue_in_one_currency",
        f"Who had more revenue in fiscal {year}, {one} ({one_ticker}) or {two} ({two_ticker})? "
        f"Compare in EUR at the rate of {on}.",
        ("get_filing", "convert_currency", "calculate", "search_web"),
        Script(
            (*reads, Call("convert_currency", convert, {"amount": converted, "currency": "EUR"})),
            f"{bigger}: {one} had {in_euro} million EUR, and {two} {converted} million EUR after conversion.",
        ),
        facts=(f"{converted}", f"{in_euro}"),
        patterns=(f"(?m)^{bigger}",),
        trap=Trap(
            "compares_two_currencies",
            Script(reads, f"{two}, with {in_yen} against {in_euro} million."),
        ),
    )


def total_of_years(rng: random.Random) -> Scenario:
    """Add a company's revenue over three years, as JSON."""
    company, ticker = rng.choice(COMPANIES)
    last = rng.randrange(2019, 2025)
    figures = {str(last - back): rng.randrange(150, 900) for back in (2, 1, 0)}
    total = sum(figures.values())
    reads = tuple(
        _filing(ticker, int(year), amount, "USD", together=position > 0)
        for position, (year, amount) in enumerate(figures.items())
    )
    integer: Json = {"type": "integer"}
    return Scenario(
        "total_of_years",
        f"Spreadsheet import: revenue of {company} ({ticker}) for {last - 2} to {last} in millions as JSON "
        "with ticker, by_year (year as key) and total. JSON only.",
        ("get_filing", "calculate", "search_web"),
        Script(reads, as_json({"ticker": ticker, "by_year": figures, "total": total})),
        schema=record(
            ticker=pattern("^[A-Z]{2,5}$"),
            by_year={"type": "object", "additionalProperties": integer, "minProperties": 3},
            total=integer,
        ),
        proof={"terms": list(figures.values()), "sum": total},
        trap=Trap("answers_in_prose", Script(reads, f"The total of {company} is {total} million USD.")),
    )


def figure_is_missing(rng: random.Random) -> Scenario:
    """Say that official statistics have no figure, and invent none."""
    country, code = rng.choice(COUNTRIES)
    words, indicator = rng.choice(INDICATORS)
    year = rng.randrange(1990, 2000)
    asked = {"indicator": indicator, "country": code, "year": year}
    missing = Call("get_statistic", asked, error="404 no observation")
    search = Call("search_web", {"query": f"{words} {country} {year}"}, {"results": [], "remark": NOTE})
    return Scenario(
        "figure_is_missing",
        f"What was the {words} of {country} in {year}? I need an official figure.",
        ("get_statistic", "search_web", "open_page", "save_note"),
        Script((missing, search), f"There is no official figure for {country} in {year} in these sources."),
        facts=(str(year),),
        patterns=("(?i)no official figure|not available|no data",),
        forbidden=("save_note",),
        trap=Trap(
            "makes_it_up",
            Script((missing,), f"In {year} it was about {rng.randrange(11, 60)} % in {country}."),
        ),
    )


FIGURES = (
    compare_two_countries,
    revenue_growth,
    revenue_in_one_currency,
    total_of_years,
    figure_is_missing,
)
