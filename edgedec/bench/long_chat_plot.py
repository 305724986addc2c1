"""A long chat as a picture: memory turn by turn, and time per token by context, early and late."""

from __future__ import annotations

from pathlib import Path

from edgedec.bench.long_chat import ChatReport
from edgedec.bench.plot import save

# Of the palette of Okabe and Ito, told apart with any kind of colour vision.
_MEMORY, _FIRST, _LAST, _LIMIT = "#D55E00", "#56B4E9", "#0072B2", "#000000"


def draw_long_chat(report: ChatReport, budget: int | None, path: Path, *, title: str) -> None:
    """Write two panels: bytes resident after each turn under the plan and the budget; milliseconds per token
    over the context, the chat's first and last quarter in colours of their own.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.4, 4.2), layout="constrained")
    memory, speed = figure.subplots(1, 2)
    numbers = range(1, len(report.turns) + 1)
    memory.plot(numbers, [turn.rss_bytes / 1e6 for turn in report.turns], color=_MEMORY, label="resident")
    memory.axhline(report.facts["memory"]["planned_bytes"] / 1e6, color=_MEMORY, linestyle=":", label="plan")
    if budget:
        memory.axhline(budget / 1e6, color=_LIMIT, linewidth=1, label="--memory")
    dropped = [number for number, turn in zip(numbers, report.turns, strict=True) if turn.dropped]
    memory.plot(dropped, [0.02] * len(dropped), "|", color="0.5", label="oldest turns dropped",
                transform=memory.get_xaxis_transform())  # fmt: skip
    most = max(report.peak, report.facts["memory"]["planned_bytes"], budget or 0)
    memory.set_ylim(0, 1.08 * most / 1e6)
    memory.set_xlabel("turn")
    memory.set_ylabel("memory of the process, MB")
    quarter = max(len(report.turns) // 4, 1)
    for turns, colour, label, size in (
        (report.turns[quarter:-quarter], "0.8", "between", 12),
        (report.turns[:quarter], _FIRST, "first quarter", 22),
        (report.turns[-quarter:], _LAST, "last quarter", 22),
    ):
        shown = [(turn.prompt_tokens, ms) for turn in turns if (ms := turn.ms_per_token) is not None]
        speed.scatter([one[0] for one in shown], [one[1] for one in shown], s=size, color=colour, label=label)
    speed.set_ylim(bottom=0)
    speed.set_xlabel("context, tokens")
    speed.set_ylabel("ms per token")
    for axes in (memory, speed):
        axes.grid(alpha=0.3)
        axes.legend(frameon=False, loc="lower right")
    figure.suptitle(title, fontsize=11)
    save(figure, path)
