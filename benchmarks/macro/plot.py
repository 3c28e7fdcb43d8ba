"""The pictures of docs/benchmarks.md: how many times better the subject is, scenario by scenario,
and how the cost of a message grows.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.macro.report import display_name
from benchmarks.macro.results import Results
from benchmarks.macro.scenario import CURVES_SECTION, Better, Of
from benchmarks.macro.shapes import Shape

AHEAD: Final = "#2a6f97"
BEHIND: Final = "#bc4b51"
TARGET: Final = "#333333"
COMPILED: Final = "#e09f3e"
TICKS: Final = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)


@dataclass(frozen=True)
class Bar:
    """All are factors over the peer, above 1 being better; `compiled` is the compiled build's."""

    label: str
    advantage: float
    target: float | None
    compiled: float | None = None


@dataclass(frozen=True)
class Line:
    """The cost of a message for one build; `points` are what grows and microseconds."""

    build: str
    points: list[tuple[float, float]]


def bars(results: Results) -> list[Bar]:
    """One bar for each metric that both brokers have a number for, in the order of the report.

    Of scenarios that are measured in shapes only the messages that differ have one.
    """
    found = []
    for scenario in results.scenarios:
        if scenario.shape not in (None, Shape.DIFFERING):
            continue
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
            compiled = None
            if results.compiled is not None:
                compiled = result.advantage(results.compiled, results.peer)
            found.append(Bar(label, advantage, target, compiled))
    return found


def curves(results: Results) -> dict[str, list[Line]]:
    """The lines of each curve that was measured, by the name of its scenario."""
    found: dict[str, list[Line]] = {}
    for scenario in results.scenarios:
        if scenario.section != CURVES_SECTION:
            continue
        lines = []
        for build in results.builds:
            points = [
                (float(result.metric.name.replace(",", "")), figure)
                for result in scenario.metrics
                if result.metric.unit.startswith("us/")
                and (figure := result.figure(build.name)) is not None
            ]
            if points:
                lines.append(Line(build.name, points))
        if lines:
            found[scenario.name] = lines
    return found


def draw_curves(results: Results, file: Path) -> bool:
    """Draw the curves as SVG; False if there are none or no matplotlib to draw with."""
    drawn = curves(results)
    if not drawn or not _has_matplotlib():
        return False
    from matplotlib import pyplot

    columns = min(3, len(drawn))
    rows = -(-len(drawn) // columns)
    figure, grid = pyplot.subplots(
        rows, columns, figsize=(3.2 * columns, 2.6 * rows), layout="constrained", squeeze=False
    )
    for axes, (name, lines) in zip(grid.flat, drawn.items(), strict=False):
        for line in lines:
            across = [point for point, _ in line.points]
            axes.plot(
                across,
                [cost for _, cost in line.points],
                marker="o",
                color=AHEAD if line.build == results.subject else COMPILED,
                label=display_name(line.build),
            )
            axes.set_xscale("log")
            axes.set_xticks(across, [f"{point:,.0f}" for point in across])
        axes.minorticks_off()
        axes.set_ylim(bottom=0)
        axes.set_title(name.removeprefix("curve_"))
        axes.spines[["top", "right"]].set_visible(False)
    for axes in list(grid.flat)[len(drawn) :]:
        axes.set_visible(False)
    grid[0][0].legend(loc="lower right")
    figure.supylabel("us of processor time each")
    figure.savefig(file, format="svg", metadata={"Date": None})
    pyplot.close(figure)
    return True


def _has_matplotlib() -> bool:
    """Whether there is one; sets it up so that a new run changes only what it measured."""
    try:
        import matplotlib as mpl
    except ImportError:
        return False
    mpl.use("svg")
    # text stays text and names do not vary
    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "benchmarks", "font.size": 9})
    return True


def draw(results: Results, file: Path) -> bool:
    """Draw the bars as SVG; False if there is nothing to compare or no matplotlib to draw with."""
    drawn = bars(results)
    if not drawn or not _has_matplotlib():
        return False
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
    others = [(bar.compiled, place) for place, bar in enumerate(drawn) if bar.compiled]
    if others:
        axes.scatter(
            [compiled for compiled, _ in others],
            [place for _, place in others],
            marker="D",
            s=24,
            color=COMPILED,
            label=display_name(results.compiled),
        )
    if targets or others:
        axes.legend(loc="lower right")
    low = min(0.8, *(bar.advantage for bar in drawn)) / 1.15
    high = max(2.0, *(bar.advantage for bar in drawn), *(at for at, _ in targets + others)) * 1.4
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
