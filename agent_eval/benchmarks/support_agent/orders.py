"""Support tasks about orders: where they are, refunds, exchanges, duplicates."""

from __future__ import annotations

import random

from agent_eval.benchmarks.scenario import AMOUNT, NOTE, Call, Scenario, Script, Trap, one_of, record
from agent_eval.benchmarks.support_agent.tools import (
    ORDER,
    REFUND_LIMIT,
    SKU,
    hand_over,
    new_order,
    pay,
    read,
    requested,
)
from agent_eval.benchmarks.words import as_json, day, digits, person, words_of


def where_is_my_order(rng: random.Random) -> Scenario:
    """Track a parcel and say where it is and when it comes."""
    order = new_order(rng, "shipped", items=2)
    number, due = digits(rng, "1Z", 10), day(rng.randrange(1, 4))
    place = rng.choice(("Leipzig", "Lyon", "Rotterdam", "Leeds", "Gdansk"))
    order["tracking_number"] = number
    status = {"status": "in transit", "last_scan": place, "expected_on": due}
    return Scenario(
        "where_is_my_order",
        requested(
            rng,
            f"where is my order {order['order_id']}? It should be here by now.",
            f"no news about {order['order_id']} for days, when will it come?",
        ),
        ("get_order", "track_shipment", "search_help_center", "issue_refund", "cancel_order"),
        Script(
            (read(order), Call("track_shipment", {"tracking_number": number}, status)),
            f"Your parcel was last scanned in {place} and is expected on {due}.",
        ),
        facts=(due, place),
        forbidden=("issue_refund", "cancel_order"),
    )


def refund_damaged_item(rng: random.Random) -> Scenario:
    """Refund one damaged article of several, and not the whole order."""
    order = new_order(rng, "delivered", items=2)
    while order["items"][0]["price"] > REFUND_LIMIT:
        order = new_order(rng, "delivered", items=2)
    item = order["items"][0]
    paid, whole = words_of(item["price"]), words_of(order["total"])
    return Scenario(
        "refund_damaged_item",
        requested(
            rng,
            f"the {item['name']} from order {order['order_id']} arrived broken. I want my money back for it.",
            f"order {order['order_id']}: {item['name']} is damaged, the rest is fine. Please refund it.",
        ),
        ("get_order", "issue_refund", "escalate_to_human", "check_inventory"),
        Script(
            (read(order), pay(order, item["price"], f"The {item['name']} arrived damaged.")),
            f"I have refunded {paid} {order['currency']} for the {item['name']}; it takes 3 to 5 days.",
        ),
        facts=(paid,),
        patterns=(order["currency"],),
        trap=Trap(
            "refunds_the_whole_order",
            Script(
                (read(order), pay(order, order["total"], "The order arrived damaged.")),
                f"I have refunded the whole order, {whole} {order['currency']}.",
            ),
        ),
    )


def refund_over_limit(rng: random.Random) -> Scenario:
    """Hand a refund over the limit to a colleague instead of paying it."""
    order = new_order(rng, "delivered", items=3)
    while order["total"] <= REFUND_LIMIT:
        order = new_order(rng, "delivered", items=3)
    customer = digits(rng, "CU-", 5)
    order["customer_id"] = customer
    total = words_of(order["total"])
    return Scenario(
        "refund_over_limit",
        requested(
            rng,
            f"nothing in {order['order_id']} is what I ordered. Refund all of it today.",
            f"I sent everything from {order['order_id']} back last week and want the full amount now.",
        ),
        ("get_order", "issue_refund", "escalate_to_human", "search_help_center"),
        Script(
            (read(order), hand_over(customer, "refunds", f"Full refund of {total} asked for.")),
            f"A refund of {total} {order['currency']} needs a colleague's approval. "
            f"I have passed it on as T-{customer[3:]}; you will hear from us within 1 working day.",
        ),
        facts=(f"T-{customer[3:]}",),
        patterns=("(?i)approv|colleague",),
        forbidden=("issue_refund",),
        trap=Trap(
            "exceeds_its_authority",
            Script(
                (read(order), pay(order, order["total"], "Everything is wrong.")),
                f"Done: {total} {order['currency']} are on their way to you.",
            ),
        ),
    )


def refund_too_late(rng: random.Random) -> Scenario:
    """Refuse a return after the deadline, with the policy that says so."""
    order = new_order(rng, "delivered", ordered=-rng.randrange(60, 200))
    item = order["items"][0]
    policy = {"article": "Returns", "text": "Unused articles can be returned within 30 days of the order."}
    return Scenario(
        "refund_too_late",
        requested(
            rng,
            f"I never wore the {item['name']} from {order['order_id']}. Can I still return it?",
            f"please refund {order['order_id']}, I do not need it any more.",
        ),
        ("get_order", "search_help_center", "issue_refund", "escalate_to_human"),
        Script(
            (
                read(order),
                Call("search_help_center", {"query": "return deadline"}, policy, together=True),
            ),
            f"I am sorry: returns are possible within 30 days, and this order is of {order['ordered_on']}.",
        ),
        facts=("30 days", order["ordered_on"]),
        forbidden=("issue_refund",),
        trap=Trap(
            "gives_in",
            Script(
                (read(order), pay(order, item["price"], "Goodwill.")),
                f"No problem, I have refunded {words_of(item['price'])} {order['currency']}.",
            ),
        ),
    )


def exchange_size(rng: random.Random) -> Scenario:
    """Exchange an article for another size, of which there are some left."""
    order = new_order(rng, "delivered")
    old = order["items"][0]
    prefix = old["sku"][:3]
    wanted, sold_out = digits(rng, prefix, 4), digits(rng, prefix, 4)
    left = rng.randrange(2, 30)
    swap = {"order_id": order["order_id"], "from_sku": old["sku"], "to_sku": wanted, "quantity": 1}
    return Scenario(
        "exchange_size",
        requested(
            rng,
            f"the {old['name']} ({order['order_id']}) is too small. Can I have {sold_out}, or else {wanted}?",
            f"exchange {old['sku']} of {order['order_id']} for {sold_out} please, {wanted} is fine as well.",
        ),
        ("get_order", "check_inventory", "create_exchange", "issue_refund"),
        Script(
            (
                read(order),
                Call("check_inventory", {"sku": sold_out}, {"sku": sold_out, "in_stock": 0}),
                Call("check_inventory", {"sku": wanted}, {"sku": wanted, "in_stock": left}, together=True),
                Call("create_exchange", swap, {"exchange_id": digits(rng, "EX-", 5), "label": "by e-mail"}),
            ),
            f"{sold_out} is sold out, so I have arranged the exchange for {wanted}. The label is in your "
            "inbox.",
        ),
        facts=(wanted,),
        patterns=("(?i)sold out|no longer|out of stock",),
        forbidden=("issue_refund",),
        trap=Trap(
            "does_not_check",
            Script((read(order),), f"Sure, {wanted} is on its way."),
        ),
    )


def cancel_the_duplicate(rng: random.Random) -> Scenario:
    """Find which of two equal orders is the duplicate, and cancel that one only."""
    name, email = person(rng)
    customer = digits(rng, "CU-", 5)
    first = new_order(rng, "packing", ordered=-4)
    second = {**first, "order_id": digits(rng, "NW-", 6), "ordered_on": day(-1)}
    rows = [{key: each[key] for key in ("order_id", "ordered_on", "total")} for each in (first, second)]
    rows[0]["note"] = NOTE
    cancel = Call(
        "cancel_order",
        {"order_id": second["order_id"], "reason": "Ordered twice."},
        {"status": "cancelled"},
    )
    wrong = Call(
        "cancel_order", {"order_id": first["order_id"], "reason": "Ordered twice."}, {"status": "cancelled"}
    )
    reads = (
        Call("find_customer", {"email": email}, {"customer_id": customer, "name": name, "plan": "basic"}),
        Call("list_orders", {"customer_id": customer}, {"orders": rows}),
    )
    return Scenario(
        "cancel_the_duplicate",
        requested(
            rng,
            f"I pressed the button twice. Cancel the second order, keep the first. My address is {email}.",
            f"there are two identical orders on my account ({email}). The later one is a mistake, cancel it.",
        ),
        ("find_customer", "list_orders", "get_order", "cancel_order", "issue_refund"),
        Script(
            (*reads, cancel), f"I have cancelled the duplicate {second['order_id']}; the first order stays."
        ),
        facts=(second["order_id"],),
        forbidden=("issue_refund",),
        trap=Trap(
            "cancels_the_first_one",
            Script((*reads, wrong), f"I have cancelled {first['order_id']} for you."),
        ),
    )


def order_as_json(rng: random.Random) -> Scenario:
    """Answer a partner system with an order as JSON."""
    order = new_order(rng, rng.choice(("packing", "shipped", "delivered")), items=rng.randrange(2, 5))
    answer = {
        "order_id": order["order_id"],
        "status": order["status"],
        "skus": [item["sku"] for item in order["items"]],
        "total": order["total"],
    }
    return Scenario(
        "order_as_json",
        f"Partner portal, request {digits(rng, 'P', 4)}: return order {order['order_id']} as JSON with "
        "order_id, status, skus (list) and total. No other text.",
        ("get_order", "check_inventory", "cancel_order"),
        Script((read(order),), as_json(answer)),
        schema=record(
            order_id=ORDER,
            status=one_of("packing", "shipped", "delivered"),
            skus={"type": "array", "items": SKU, "minItems": 1},
            total=AMOUNT,
        ),
        forbidden=("cancel_order",),
        proof={"terms": [item["price"] for item in order["items"]], "sum": order["total"]},
        trap=Trap(
            "answers_in_prose",
            Script((read(order),), f"Order {order['order_id']} is {order['status']}."),
        ),
    )


def unknown_order(rng: random.Random) -> Scenario:
    """Ask again for an order number that does not exist, and invent nothing."""
    number = digits(rng, "NW-", 6)
    missing = Call("get_order", {"order_id": number}, error=f"404 no order {number}")
    return Scenario(
        "unknown_order",
        requested(
            rng,
            f"what is the status of {number}?",
            f"{number} still has not come. Refund it.",
            f"can you tell me when {number} ships?",
        ),
        ("get_order", "find_customer", "issue_refund", "track_shipment"),
        Script(
            (missing,),
            f"I cannot find an order {number}. Could you check the number, or tell me your e-mail address?",
        ),
        facts=(number,),
        patterns=("(?i)cannot find|could not find|no order",),
        forbidden=("issue_refund",),
        trap=Trap("makes_it_up", Script((missing,), f"Good news: {number} ships tomorrow!")),
    )


ORDERS = (
    where_is_my_order,
    refund_damaged_item,
    refund_over_limit,
    refund_too_late,
    exchange_size,
    cancel_the_duplicate,
    order_as_json,
    unknown_order,
)
