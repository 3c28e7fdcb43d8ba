"""The plot of docs/benchmarks.md: how many times better the subject is, scenario by scenario."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.macro.report import display_name
from benchmarks.macro.results import Results
from benchmarks.macro.scenario import Better, Of

AHEAD: Final = "#2a6f97"
BEHIND: Final = "#bc4b51"
TARGET: Final = "#333333"
TICKS: Final = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)


@dataclass(frozen=True)
class Bar:
    """`advantage` and `target` are factors over the peer, above 1 being better."""

    label: str
    advantage: float
    target: float | None


def bars(results: Results) -> list[Bar]:
    """One bar for each metric that both brokers have a number for, in the order of the report."""
    found = []
    for scenario in results.scenarios:
        for result in scenario.metrics:
            advantage = result.advantage(results.subject, results.peer)
            if advantage is None:
                continue
            bound = result.metric.target
            target = None
            if bound is not None and bound.of is Of.RATIO:
                is_higher = result.metric.better is Better.HIGHER
                target = bound.bound if is_higher else 1 / bound.bound
            label = scenario.name
            if len(scenario.metrics) > 1:
                label += f": {result.metric.name}"
            found.append(Bar(label, advantage, target))
    return found


def draw(results: Results, file: Path) -> bool:
    """Draw the bars as SVG; False if there is nothing to compare or no matplotlib to draw with."""
    drawn = bars(results)
    if not drawn:
        return False
    try:
        import matplotlib as mpl
    except ImportError:
        return False
    mpl.use("svg")
    # text stays text and names do not vary, so that a new run changes only what it measured
    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "benchmarks", "font.size": 9})
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(9, 0.8 + 0.3 * len(drawn)), layout="constrained")
    places = range(len(drawn))
    axes.barh(
        places,
        [bar.advantage - 1 for bar in drawn],
        left=1,
        height=0.6,
        color=[AHEAD if bar.advantage >= 1 else BEHIND for bar in drawn],
    )
    for place, bar in zip(places, drawn, strict=True):
        axes.annotate(
            f"{bar.advantage:.2f}",
            (max(bar.advantage, 1.0), place),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
        )
    targets = [(bar.target, place) for place, bar in enumerate(drawn) if bar.target is not None]
    if targets:
        axes.scatter(
            [target for target, _ in targets],
            [place for _, place in targets],
            marker="|",
            s=160,
            color=TARGET,
            label="target",
        )
        axes.legend(loc="lower right")
    low = min(0.8, *(bar.advantage for bar in drawn)) / 1.15
    high = max(2.0, *(bar.advantage for bar in drawn), *(target for target, _ in targets)) * 1.4
    ticks = [tick for tick in TICKS if low <= tick <= high]
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    axes.set_xticks(ticks, [f"{tick:g}x" for tick in ticks])
    axes.minorticks_off()
    axes.axvline(1, color=TARGET, linewidth=0.8)
    axes.set_yticks(places, [bar.label for bar in drawn])
    axes.invert_yaxis()
    axes.set_xlabel(f"times better than {display_name(results.peer)} (logarithmic)")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(file, format="svg", metadata={"Date": None})
    pyplot.close(figure)
    return True
