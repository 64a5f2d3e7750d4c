"""What `qchat bench --spec` asks: everyday tasks, whose answers are new or repeat what was said before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_LETTER = """Dear customer,

Thank you for your order of 12 March. The oak table and the six chairs left our workshop in Bergen on Monday and should
reach you within eight working days. The driver will call you on the morning of the delivery to agree on a time. Please
check that nothing is damaged before you sign for the furniture. If a part is missing, write to us within fourteen days,
and we will send it at no cost. The wood has been treated with natural oil, so keep it away from direct sunlight for the
first four weeks and clean it with a dry cloth only.

Kind regards,
Your workshop"""

_CODE = """def read_orders(path):
    orders = []
    with open(path) as file:
        for line in file:
            line = line.strip()
            if not line:
                continue
            name, price, count = line.split(",")
            orders.append({"name": name, "price": float(price), "count": int(count)})
    return orders


def total_price(orders):
    total = 0.0
    for order in orders:
        total += order["price"] * order["count"]
    return total


def most_expensive(orders):
    best = None
    for order in orders:
        if best is None or order["price"] > best["price"]:
            best = order
    return best"""

_STOCK = """- oak table, furniture, Bergen, 340
- wool blanket, textiles, Galway, 85
- clay teapot, kitchen, Yixing, 48
- brass lamp, lighting, Amman, 120
- glass vase, kitchen, Prague, 62
- cane chair, furniture, Hanoi, 95"""


@dataclass(frozen=True)
class Task:
    """A conversation to be answered. `repeats`: whether a good answer holds long stretches of it."""

    name: str
    repeats: bool
    messages: Sequence[Mapping[str, str]]


def _asked(name: str, question: str, *, repeats: bool = False, before: Sequence[str] = ()) -> Task:
    """`before` are earlier messages, by the person and the model in turn."""
    turns = [*before, question]
    roles = ("user", "assistant")
    return Task(name, repeats, [{"role": roles[i % 2], "content": text} for i, text in enumerate(turns)])


TASKS = (
    _asked("prose", "Write a short story about a lighthouse keeper who finds a letter in a bottle."),
    _asked("explanation", "Explain how a refrigerator keeps food cold, in three paragraphs."),
    _asked("code", "Write a Python class for a bank account with deposit, withdraw and transfer, and an example."),
    _asked("list", "List twenty animals, each with the continent where it lives."),
    _asked("list to JSON", f"Turn this list into a JSON array of objects with name, kind, city and price:\n\n{_STOCK}"),
    _asked("translation", f"Translate this letter into French:\n\n{_LETTER}"),
    _asked("quoting", f"Repeat the following letter word for word:\n\n{_LETTER}", repeats=True),
    _asked("quoting code", f"Repeat this program exactly, in a code block:\n\n```python\n{_CODE}\n```", repeats=True),
    _asked(
        "editing",
        "Good. Now write the whole letter again, but the delivery takes ten working days.",
        repeats=True,
        before=(f"Correct the spelling of this letter and write it out:\n\n{_LETTER}", _LETTER),
    ),
    _asked(
        "editing code",
        "Write the whole program again with the function total_price renamed to sum_of_orders.",
        repeats=True,
        before=("Write functions that read orders and add them up.", f"```python\n{_CODE}\n```"),
    ),
)
