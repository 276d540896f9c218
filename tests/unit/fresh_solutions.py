"""One solution of each fresh task, by function: the texts' examples are run through them."""

from __future__ import annotations

import heapq
import re
from collections import Counter, deque
from fractions import Fraction
from functools import cache


def relay(lengths: list[int]) -> list[int]:
    left, lit = list(lengths), {0}
    minute = wax = 0
    while lit:
        minute += 1
        for candle in lit:
            left[candle] -= 1
        reached = [candle for candle in lit if left[candle] == lengths[candle] // 2]
        lit |= {candle + 1 for candle in reached if candle + 1 < len(lengths)}
        for candle in sorted(lit):
            if candle in lit and left[candle] == 0:
                lit.remove(candle)
                if candle - 1 in lit:
                    lit.remove(candle - 1)
                    wax += left[candle - 1]
    return [minute, wax]


def drift_encode(message: str, start: int) -> str:
    coded, key, consonants = [], start, 0
    for character in message:
        if character == " ":
            coded.append("_")
            key += 1
            continue
        coded.append(chr((ord(character) - 97 + key) % 26 + 97))
        if character in "aeiou":
            key, consonants = start, 0
        else:
            consonants += 1
            key += consonants
    return "".join(coded)


def seat_groups(rows: list[int], groups: list[int]) -> list[int]:
    used = [0] * len(rows)
    placed = []
    for size in groups:
        room = []
        for number, seats in enumerate(rows):
            needed = size + (1 if used[number] else 0)
            if used[number] + needed <= seats:
                room.append((seats - used[number] - needed, number, needed))
        if not room:
            placed.append(-1)
            continue
        _, number, needed = min(room)
        used[number] += needed
        placed.append(number)
    return placed


def most_stalls(prices: list[int], budget: int) -> int:
    @cache
    def cheapest(stall: int, streak: int, wanted: int) -> float:
        if wanted == 0:
            return 0
        if stall == len(prices):
            return float("inf")
        skip = cheapest(stall + 1, 0, wanted)
        return min(skip, prices[stall] + streak + cheapest(stall + 1, streak + 1, wanted - 1))

    return max(n for n in range(len(prices) + 1) if cheapest(0, 0, n) <= budget)


def cross_flats(heights: list[list[int]], tide: int) -> int:
    rows, columns = len(heights), len(heights[0])

    def dry(row: int, column: int, minute: int) -> bool:
        return heights[row][column] >= abs(minute % (2 * tide) - tide)

    if not dry(0, 0, 0):
        return -1
    queue, seen = deque([(0, 0, 0)]), {(0, 0, 0)}
    while queue:
        row, column, minute = queue.popleft()
        if (row, column) == (rows - 1, columns - 1):
            return minute
        for down, right in ((0, 0), (0, 1), (1, 0), (0, -1), (-1, 0)):
            r, c, later = row + down, column + right, minute + 1
            state = (r, c, later % (2 * tide))
            if 0 <= r < rows and 0 <= c < columns and dry(r, c, later) and state not in seen:
                seen.add(state)
                queue.append((r, c, later))
    return -1


def spread_rumours(people: int, memory: int, calls: list[tuple[int, int]]) -> list[list[int]]:
    known: list[list[int]] = [[person] for person in range(people)]
    for first, second in calls:
        heard_first = [r for r in known[second] if r not in known[first]]
        heard_second = [r for r in known[first] if r not in known[second]]
        known[first] = (known[first] + heard_first)[-memory:]
        known[second] = (known[second] + heard_second)[-memory:]
    return known


def group_readings(readings: list[int]) -> list[list[int]]:
    groups: list[list[int]] = []
    for reading in readings:
        if not groups or reading * len(groups[-1]) < sum(groups[-1]):
            groups.append([reading])
        else:
            groups[-1].append(reading)
    index = 0
    while index < len(groups):
        if len(groups[index]) > 1 or len(groups) == 1:
            index += 1
            continue
        reading = groups[index][0]
        beside = [i for i in (index - 1, index + 1) if 0 <= i < len(groups)]
        gaps = {i: abs(Fraction(sum(groups[i]), len(groups[i])) - reading) for i in beside}
        target = min(beside, key=lambda i: (gaps[i], i))
        if target < index:
            groups[target].append(reading)
        else:
            groups[target].insert(0, reading)
        del groups[index]
    return groups


def worth(brackets: str) -> int | None:
    stack: list[tuple[str, list[int]]] = [("", [])]
    for character in brackets:
        if character in "([{":
            stack.append((character, []))
            continue
        opened, inside = stack.pop()
        if not stack or opened + character not in ("()", "[]", "{}"):
            return None
        if character == ")":
            value = 1 + sum(inside)
        elif character == "]":
            value = 2 * max(inside, default=0) + len(inside)
        else:
            value = sum(v if i % 2 == 0 else -v for i, v in enumerate(inside))
        stack[-1][1].append(value)
    return sum(stack[0][1]) if len(stack) == 1 else None


def load_carts(crates: list[int], carts: int) -> list[int]:
    loads, resting = [0] * carts, -1
    for crate in crates:
        free = [cart for cart in range(carts) if cart != resting]
        fitting = [cart for cart in free if (loads[cart] + crate) % (cart + 2) != 0] or free
        chosen = min(fitting, key=lambda cart: (loads[cart], -cart))
        loads[chosen] += crate
        resting = chosen if crate % 2 else -1
    return loads


def days_apart(first: str, second: str) -> int:
    def month_days(year: int, month: int) -> int:
        if month == 6 and year % 7 == 0 and year % 35 != 0:
            return 34
        return 33 if month % 2 else 32

    def day_number(text: str) -> int:
        year, month, day = (int(part) for part in text.split("/"))
        days = sum(month_days(y, m) for y in range(1, year) for m in range(1, 12))
        return days + sum(month_days(year, m) for m in range(1, month)) + day

    return day_number(second) - day_number(first)


def trim_necklace(beads: str) -> str:
    ring = list(beads)
    while len(ring) > 3:
        for i, bead in enumerate(ring):
            left, right = ring[i - 1], ring[(i + 1) % len(ring)]
            if left == right != bead:
                drop = {i, (i + 1) % len(ring)}
                ring = [b for j, b in enumerate(ring) if j not in drop]
                break
        else:
            break
    return "".join(ring)


def regatta_table(results: dict[str, list[int | None]]) -> list[str]:
    boats = len(results)
    points = {}
    for boat, places in results.items():
        scores, missed = [], 0
        for place in places:
            missed = missed + 1 if place is None else 0
            scores.append(boats + missed if place is None else place)
        total = sum(scores) - (max(scores) if len(scores) >= 4 else 0)
        points[boat] = (total, [*reversed(scores)], boat)
    return sorted(points, key=lambda boat: points[boat])


def count_ladders(low: int, high: int) -> int:
    @cache
    def from_digit(digit: int, left: int) -> int:
        if left == 0:
            return 1
        return sum(from_digit(d, left - 1) for d in (digit + 2, digit - 3) if 0 <= d <= 9)

    def up_to(limit: int) -> int:
        if limit < 1:
            return 0
        digits = [int(d) for d in str(limit)]
        size = len(digits)
        total = sum(from_digit(d, n - 1) for n in range(1, size) for d in range(1, 10))
        previous: int | None = None
        for position, digit in enumerate(digits):
            nexts = range(1, 10) if previous is None else (previous + 2, previous - 3)
            total += sum(from_digit(d, size - position - 1) for d in nexts if 0 <= d < digit)
            if digit not in nexts:
                return total
            previous = digit
        return total + 1

    return up_to(high) - up_to(low - 1)


def tidy_walk(path: str) -> str:
    opposite = {"N": "S", "S": "N", "E": "W", "W": "E"}
    steps = list(path)
    index = 0
    while index + 1 < len(steps):
        if opposite[steps[index]] == steps[index + 1]:
            del steps[index : index + 2]
            index = 0
        else:
            index += 2
    return "".join(
        f"{run[0][0]}{len(run[0])}" if len(run[0]) > 1 else run[0]
        for run in re.finditer(r"(.)\1*", "".join(steps))
    )


def serve_tea(requests: list[tuple[int, int]], capacity: int) -> list[int]:
    served: list[int] = []
    free_at = 0
    while len(served) < len(requests):
        start = max(free_at, requests[len(served)][0])
        cups, batch = 0, 0
        for arrival, wanted in requests[len(served) :]:
            if arrival > start or cups + wanted > capacity:
                break
            cups, batch = cups + wanted, batch + 1
        ready = start + cups + 2
        served += [ready] * batch
        free_at = ready + (1 if cups == capacity else 0)
    return served


def balanced_window(grid: list[list[int]]) -> list[int]:
    rows, columns = len(grid), len(grid[0])
    for size in range(min(rows, columns), 1, -1):
        for top in range(rows - size + 1):
            for left in range(columns - size + 1):
                window = [row[left : left + size] for row in grid[top : top + size]]
                half = size // 2
                upper = sum(map(sum, window[:half]))
                lower = sum(map(sum, window[size - half :]))
                west = sum(sum(row[:half]) for row in window)
                east = sum(sum(row[size - half :]) for row in window)
                if upper == lower or west == east:
                    return [size, top, left]
    return []


def typist_distance(wrong: str, right: str) -> int:
    vowels = "aeiou"

    def weight(letter: str) -> int:
        return 1 if letter in vowels else 2

    @cache
    def cost(i: int, j: int) -> int:
        if i == 0 or j == 0:
            return sum(weight(c) for c in wrong[:i]) + sum(weight(c) for c in right[:j])
        a, b = wrong[i - 1], right[j - 1]
        replaced = 0 if a == b else 3 if (a in vowels) != (b in vowels) else weight(a)
        found = min(
            cost(i - 1, j - 1) + replaced, cost(i - 1, j) + weight(a), cost(i, j - 1) + weight(b)
        )
        if i > 1 and j > 1 and wrong[i - 2 : i] == right[j - 1] + right[j - 2]:
            found = min(found, cost(i - 2, j - 2) + 1)
        return found

    return cost(len(wrong), len(right))


def count_plants(plan: str) -> dict[str, int]:
    tokens = deque(re.findall(r"\d+|[a-z]+|[(),*/]", plan))

    def items() -> Counter[str]:
        total = item()
        while tokens and tokens[0] == ",":
            tokens.popleft()
            total.update(item())
        return total

    def item() -> Counter[str]:
        token = tokens.popleft()
        times = 1
        if token.isdigit():
            times = int(token)
            tokens.popleft()
            token = tokens.popleft()
        if token == "(":
            counts = items()
            tokens.popleft()
        else:
            counts = Counter({token: 1})
        counts = Counter({name: n * times for name, n in counts.items()})
        if tokens and tokens[0] == "/":
            tokens.popleft()
            share = int(tokens.popleft())
            counts = Counter({name: -(-n // share) for name, n in counts.items()})
        return counts

    return dict(sorted(items().items()))


def cheapest_trip(roads: list[tuple[str, str, int]], start: str, goal: str) -> int:
    beside: dict[str, list[tuple[str, int]]] = {}
    for a, b, toll in roads:
        beside.setdefault(a, []).append((b, toll))
        beside.setdefault(b, []).append((a, toll))
    queue, done = [(0, start, False)], set()
    while queue:
        paid, town, fined = heapq.heappop(queue)
        if town == goal:
            return paid
        if (town, fined) in done:
            continue
        done.add((town, fined))
        for other, toll in beside.get(town, []):
            price = toll * 2 if fined else toll
            heapq.heappush(queue, (paid + price, other, toll % 2 == 1))
    return -1


def shelve(scrolls: list[int], width: int) -> int:
    @cache
    def least(first: int) -> float:
        if first == len(scrolls):
            return 0
        best = float("inf")
        for end in range(first + 1, len(scrolls) + 1):
            shelf = scrolls[first:end]
            gap = width - sum(shelf)
            if gap < 0:
                break
            last = end == len(scrolls)
            if len(shelf) == 1 and not last:
                continue
            best = min(best, (0 if last else gap * len(shelf)) + least(end))
        return best

    found = least(0)
    return -1 if found == float("inf") else int(found)
