"""Writes exp_table.inc and log_table.inc, the tables of javamath.hpp, from exact arithmetic."""

from decimal import ROUND_FLOOR, Decimal, getcontext
from pathlib import Path

getcontext().prec = 60


def exp_table() -> str:
    lines = ["// Written by make_tables.py: {2^(j/64) rounded down, what is left relative to it}, j = 0..63."]
    for j in range(64):
        exact = Decimal(2) ** (Decimal(j) / 64)
        head = int((exact * 2**52).to_integral_value(ROUND_FLOOR)) / 2**52
        rest = float(exact / Decimal(head) - 1)
        lines.append(f"{{{head.hex()}, {rest.hex()}}},")
    return "\n".join(lines) + "\n"


def log_table() -> str:
    lines = [
        "// Written by make_tables.py: {30 leading bits of ln(1 + j/1024), the rest}, j = 544..575, for 49 <= x < 50."
    ]
    for j in range(544, 576):
        exact = (1 + Decimal(j) / 1024).ln()
        shift = float(exact) * 2.0**30
        head = float(exact) + shift - shift
        lines.append(f"{{{head.hex()}, {float(exact - Decimal(head)).hex()}}},")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    folder = Path(__file__).parent
    (folder / "exp_table.inc").write_text(exp_table())
    (folder / "log_table.inc").write_text(log_table())
