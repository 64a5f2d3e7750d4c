"""The gate: costs and acceptance are learnt from steps, and a draft is made where it gains and nowhere else."""

from __future__ import annotations

from array import array

import pytest

from app.engine.speculation.automaton import Draft, SuffixAutomaton
from app.engine.speculation.gate import ROW_COST, Acceptance, Governor, StepCosts, worthwhile
from app.engine.speculation.speculator import PLAIN_EVERY, Speculator

PLAIN_S = 0.01


def costs_of(per_row: float) -> StepCosts:
    """A machine where each row after the first takes `per_row` of a plain step."""
    costs = StepCosts()
    for _ in range(40):
        for rows in (1, 2, 4, 8):
            costs.record(rows, PLAIN_S * (1 + per_row * (rows - 1)))
    return costs


def taught(right: bool, match: int = 3) -> Acceptance:
    acceptance = Acceptance()
    for _ in range(200):
        for i in range(7):
            acceptance.record(match + i, 1.0, right)
    return acceptance


def draft(share: float = 1.0) -> Draft:
    return Draft(3, tuple(range(7)), (share,) * 7)


def test_costs_are_those_that_were_measured_and_lie_between_their_neighbours() -> None:
    costs = costs_of(0.2)
    assert costs.ratio(1) == 1.0
    assert costs.ratio(4) == pytest.approx(1.6, rel=0.01)
    assert costs.ratio(6) == pytest.approx((costs.ratio(4) + costs.ratio(8)) / 2)
    slower = costs_of(0.2)
    for rows in [1] * 9 + [4] * 9:  # the whole machine became slower: the ratios stay
        slower.record(rows, 2 * PLAIN_S * (1 + 0.2 * (rows - 1)))
    assert slower.ratio(4) == pytest.approx(1.6, rel=0.01)


def test_a_cost_that_was_never_measured_is_on_the_line_through_its_neighbours_or_an_estimate() -> None:
    costs = StepCosts()
    for rows, ratio in [(1, 1.0), (1, 1.0), *[(2, 1.2), (4, 3.0), (6, 4.0)] * 40]:
        costs.record(rows, PLAIN_S * ratio)
    assert costs.ratio(5) == pytest.approx(3.5, rel=0.01)
    assert costs.ratio(8) == pytest.approx(4.0 + 2 * ROW_COST, rel=0.01)


def test_a_plain_step_is_known_after_two_and_those_that_were_slow_are_not_believed() -> None:
    costs = StepCosts()
    costs.record(1, PLAIN_S)
    assert costs.plain_s is None
    for seconds in (PLAIN_S, PLAIN_S, 10 * PLAIN_S, 10 * PLAIN_S):
        costs.record(1, seconds)
    assert costs.plain_s == PLAIN_S
    for _ in range(40):
        costs.record(8, 0.0)
    assert 0.89 < costs.ratio(8) < 1.0, "eight rows take no less time than one"


def test_one_unlucky_measurement_is_forgotten() -> None:
    costs = costs_of(0.1)
    before = costs.ratio(8)
    costs.record(8, 100 * PLAIN_S)
    assert before < costs.ratio(8) < 5  # and is not believed in full
    for _ in range(3000):
        costs.forget()
    assert costs.ratio(8) == pytest.approx(1.42, abs=0.05)


@pytest.mark.parametrize(
    ("right", "per_row", "share", "wanted"),
    [
        (True, 0.05, 1.0, 7),  # all are right and rows are cheap
        (False, 0.05, 1.0, 0),
        (True, 1.5, 1.0, 0),  # a row costs more than a step
        (True, 0.05, 0.01, 0),  # this was hardly ever what followed
    ],
)
def test_as_many_guesses_as_pay(right: bool, per_row: float, share: float, wanted: int) -> None:
    assert worthwhile(draft(share), taught(right), costs_of(per_row)) == wanted


def test_uncertain_guesses_are_few() -> None:
    acceptance = Acceptance()
    for i in range(400):
        acceptance.record(3, 1.0, i % 2 == 0)
        acceptance.record(5, 1.0, i % 2 == 0)
    assert 1 <= worthwhile(draft(), acceptance, costs_of(0.12)) <= 3


@pytest.mark.parametrize("share", [0.25, 1.0])
def test_what_followed_in_a_share_of_the_cases_is_right_in_that_share(share: float) -> None:
    """A guess counts as its share of one: of guesses that are right as often as their share says, all is expected."""
    acceptance = Acceptance()
    for i in range(1000):
        acceptance.record(3, share, i % round(1 / share) == 0)
    assert acceptance.rate(3, share) == pytest.approx(share, rel=0.05)
    assert acceptance.rate(3, 0.5) == pytest.approx(0.5, rel=0.05)


def test_no_guess_is_more_than_certain() -> None:
    acceptance = Acceptance()
    for _ in range(200):
        acceptance.record(3, 0.25, True)
    assert acceptance.rate(3, 1.0) == 1.0


def test_each_guess_is_weighed_by_all_the_tokens_before_it() -> None:
    """Behind a match of 3 or 4 guesses are right here, behind a longer one they are not."""
    acceptance = taught(True)
    for _ in range(200):
        acceptance.record(5, 1.0, False)
    assert worthwhile(draft(), acceptance, costs_of(0.05)) == 2


def test_a_gain_under_three_in_a_hundred_is_none() -> None:
    acceptance = Acceptance()
    for i in range(1000):
        acceptance.record(3, 1.0, i % 8 == 0)
    one = Draft(3, (1,), (1.0,))
    expected = 1 + acceptance.rate(3, 1.0)
    assert worthwhile(one, acceptance, costs_of(expected / 1.02 - 1)) == 0
    assert worthwhile(one, acceptance, costs_of(expected / 1.04 - 1)) == 1


def test_losing_steps_park_it_for_ever_longer_and_a_win_ends_that() -> None:
    governor = Governor()

    def lose() -> int:
        while governor.allows():
            governor.record(1, 1.5)
        parked = 1
        while not governor.allows():
            parked += 1
        return parked

    assert [lose() for _ in range(5)] == [32, 64, 128, 256, 256]
    for _ in range(20):
        governor.record(3, 1.5)
        assert governor.allows()
    assert lose() == 32


@pytest.mark.parametrize(("cost", "steps"), [(1.5, 8), (1.05, 8), (0.95, None)])
def test_it_takes_a_few_losing_steps_to_park_it(cost: float, steps: int | None) -> None:
    governor = Governor()
    allowed = []
    for _ in range(30):
        allowed.append(governor.allows())
        governor.record(1, cost)
        if not governor.allows():
            break
    assert len(allowed) == (steps or 30)


def run(speculator: Speculator, sequence: array[int], text: list[int], per_row: float) -> list[int]:
    """Answer with `text` on a machine that takes `per_row`; how many guesses each step checked."""
    drafted, speculated = [], list(text)
    while speculated:
        guesses = list(speculator.propose(sequence, 7, frozenset()))
        right = next((i for i, (a, b) in enumerate(zip(guesses, speculated, strict=False)) if a != b), len(guesses))
        drawn, speculated = speculated[: right + 1], speculated[right + 1 :]
        speculator.record(drawn, len(guesses), PLAIN_S * (1 + per_row * len(guesses)))
        sequence.extend(drawn)
        drafted.append(len(guesses))
    return drafted


def test_quoting_is_guessed_and_prose_is_not() -> None:
    document = array("q", range(100, 400))
    speculator = Speculator()
    sequence = document[:]
    speculator.start(sequence)
    quoting = run(speculator, sequence, list(range(100, 400)), 0.06)
    assert len(quoting) < 70
    prose = run(speculator, sequence, [i * i % 997 + 1000 for i in range(300)], 0.06)
    assert sum(prose) < 20


def test_a_machine_where_rows_are_dear_loses_next_to_nothing() -> None:
    text = [1, 2, 3, 4, 5, 6, 7, 8, 9] * 60
    speculator, sequence = Speculator(), array("q", text)
    speculator.start(sequence)
    drafted = run(speculator, sequence, text, 1.2)
    cost = sum(1 + 1.2 * guesses for guesses in drafted)
    assert len(text) / cost > 0.95


def test_plain_steps_come_now_and_then() -> None:
    speculator, sequence = Speculator(), array("q", [1, 2, 3] * 30)
    speculator.start(sequence)
    drafted = run(speculator, sequence, [1, 2, 3] * 500, 0.06)
    plain = [i for i, guesses in enumerate(drafted) if guesses == 0]
    assert plain[:2] == [0, 1], "two to know what a plain step costs"
    assert plain[2:] == [*range(2 + PLAIN_EVERY, len(drafted), PLAIN_EVERY + 1)]


def test_no_guess_is_an_end_or_behind_one() -> None:
    sequence = array("q", [5, 6, 7, 8, 9] * 4 + [5, 6])
    speculator = Speculator()
    speculator.start(sequence)
    for _ in range(2):
        speculator.propose(sequence, 7, frozenset())
        speculator.record([7], 0, PLAIN_S)
    assert tuple(speculator.propose(sequence, 7, frozenset({9}))) == (7, 8)
    assert tuple(speculator.propose(sequence, 2, frozenset())) == (7, 8)
    assert tuple(speculator.propose(sequence, 0, frozenset())) == ()
    assert tuple(speculator.propose(sequence, -1, frozenset())) == ()


def ready() -> tuple[Speculator, array[int]]:
    """A speculator that guesses 7, 8, 9, 5, 6, 7, 8 and knows what a plain step costs, and the conversation."""
    speculator, sequence = Speculator(), array("q", [5, 6, 7, 8, 9] * 8 + [5, 6])
    speculator.start(sequence)
    for _ in range(2):
        speculator.record([], 0, PLAIN_S)
    return speculator, sequence


def test_steps_that_lose_end_guessing_for_a_while_and_slow_plain_ones_do_not() -> None:
    speculator, sequence = ready()
    for _ in range(16):
        speculator.record([1], 0, 1.5 * PLAIN_S)
        speculator.record([], 0, PLAIN_S)
    assert speculator.propose(sequence, 7, frozenset())
    for _ in range(8):
        speculator.record([1], 4, 1.5 * PLAIN_S)
    guessed = [bool(speculator.propose(sequence, 1, frozenset())) for _ in range(40)]
    assert guessed.index(True) == 32


def test_what_was_too_dear_is_tried_again_some_day() -> None:
    speculator, sequence = ready()
    for rows in [*range(2, 9)] * 40:
        speculator._costs.record(rows, 1.5 * rows * PLAIN_S)
    guessed = [bool(speculator.propose(sequence, 7, frozenset())) for _ in range(2000)]
    assert not any(guessed[:200]) and any(guessed)


def test_each_token_that_comes_says_of_its_guess_whether_it_was_right(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of those too that were not checked: the guess of 9 here."""
    speculator, sequence = ready()
    sequence.append(7)
    seen: list[tuple[int, float, bool]] = []
    monkeypatch.setattr(speculator._acceptance, "record", lambda *said: seen.append(said))
    sequence[-5:] = array("q", [8, 1, 5, 6, 7])  # once, of eight times, 1 followed
    speculator.start(sequence)
    assert tuple(speculator.propose(sequence, 1, frozenset())) == (8,)
    speculator.record([8, 1], 1, PLAIN_S)
    assert seen == [(3, pytest.approx(1.0), True), (4, pytest.approx(7 / 8), False)]


def test_a_prompt_is_read_when_the_reply_begins_and_what_is_known_of_it_is_not_read_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first step would seem slow otherwise, and each reply begin with reading the whole conversation."""
    read: list[int] = []
    extend = SuffixAutomaton.extend
    monkeypatch.setattr(
        SuffixAutomaton, "extend", lambda known, tokens: (read.append(len(tokens)), extend(known, tokens))
    )
    speculator, prompt = Speculator(), array("q", range(100))
    speculator.start(prompt)
    speculator.propose(prompt, 7, frozenset())
    speculator.start(array("q", [*range(90), *range(200, 220)]))
    assert read == [100, 0, 20]


def test_another_prompt_cuts_back_what_is_known() -> None:
    speculator = Speculator()
    speculator.start(array("q", [1, 2, 3, 4, 5, 6]))
    sequence = array("q", [1, 2, 3, 9, 1, 2, 3])
    speculator.start(sequence)
    for _ in range(2):
        speculator.propose(sequence, 7, frozenset())
        speculator.record([0], 0, PLAIN_S)
    assert speculator.propose(sequence, 7, frozenset())[:1] == (9,)


def test_what_is_wrong_again_and_again_is_guessed_no_more() -> None:
    records = [[4 * i + 1, 4 * i + 2, 4 * i + 3, 4 * i + 4] for i in range(100)]
    sequence = array("q", [token for record in records for token in record])
    speculator = Speculator()
    speculator.start(sequence)
    guesses = []  # made behind the third token of a record, which another one follows each time
    for i, record in enumerate(records):
        for token in [*record[:3], 1000 + i]:
            draft = speculator.propose(sequence, 1, frozenset())
            if token >= 1000:
                guesses.append(len(draft))
            speculator.record([token], len(draft), PLAIN_S)
            sequence.append(token)
    assert any(guesses[:10]) and not any(guesses[-50:])
