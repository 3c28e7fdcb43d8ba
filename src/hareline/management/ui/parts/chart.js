// Line charts over time, drawn by the vendored uPlot. The legend is text beside the picture: it
// tells the latest values, or those under the pointer, also to those who do not see the lines.
import uPlot from "../vendor/uplot.esm.js";
import { html, useEffect, useRef, useState, useValue } from "../lib/view.js";
import { theme } from "../lib/prefs.js";
import { moment } from "../lib/format.js";
import { history } from "../lib/poll.js";

export const COLOURS = ["--c1", "--c2", "--c3", "--c4", "--c5", "--c6"];

/** The colour that a property of the style sheet has now, in either theme. */
function colour(property) {
  const probe = document.createElement("span");
  probe.style.color = `var(${property})`;
  document.body.append(probe);
  const value = getComputedStyle(probe).color;
  probe.remove();
  return value;
}

/** The least that the axis of time shows, in seconds. */
const SPAN_S = 120;

function timeOf(seconds, step) {
  const text = moment(seconds * 1000).slice(11);
  return step >= 60 ? text.slice(0, 5) : text;
}

const darkness = matchMedia("(prefers-color-scheme: dark)");

/**
 * `series`: [{label, values, colour, dash}], `times`: seconds; `format`: of a value;
 * `least`: the top of the axis is at least this.
 */
export function Chart({ title, times, series, format, least = 4, height = 170, note }) {
  const place = useRef(null);
  const plot = useRef(null);
  const [cursor, setCursor] = useState(null);
  const [round, setRound] = useState(0);
  const chosen = useValue(theme);
  const shape = series.map((each) => each.label).join("\n");

  useEffect(() => {
    const again = () => setRound((number) => number + 1);
    darkness.addEventListener("change", again);
    return () => darkness.removeEventListener("change", again);
  }, []);

  useEffect(() => {
    const box = place.current;
    const muted = colour("--muted");
    const line = { stroke: colour("--line"), width: 1 };
    const axis = { stroke: muted, grid: line, ticks: { show: false }, font: "11px system-ui, sans-serif" };
    const options = {
      width: Math.max(120, box.clientWidth),
      height,
      padding: [10, 8, 0, 0],
      legend: { show: false },
      cursor: { points: { size: 6 }, drag: { x: false, y: false }, y: false, sync: { key: "hareline" } },
      scales: { x: { time: true, range: (_plot, low, high) => [Math.min(low, high - SPAN_S), high] }, y: { range: (_plot, _low, high) => [0, Math.max(least, (high ?? 0) * 1.08)] } },
      axes: [{ ...axis, size: 24, space: 80, values: (_plot, ticks, _axis, _space, step) => ticks.map((tick) => timeOf(tick, step)) }, { ...axis, size: 58, space: 34, values: (_plot, ticks) => ticks.map((tick) => format(tick)) }],
      series: [{}, ...series.map((each, number) => ({
        label: each.label, stroke: colour(each.colour ?? COLOURS[number % COLOURS.length]), width: 1.75, dash: each.dash, points: { show: false }, spanGaps: true,
      }))],
      hooks: { setCursor: [(self) => setCursor(self.cursor.idx ?? null)] },
    };
    const made = plot.current = new uPlot(options, [times, ...series.map((each) => each.values)], box);
    const observer = new ResizeObserver(() => made.setSize({ width: Math.max(120, box.clientWidth), height }));
    observer.observe(box);
    return () => {
      observer.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [shape, chosen, round, height]);

  useEffect(() => {
    plot.current?.setData([times, ...series.map((each) => each.values)]);
  }, [times, series]);

  const where = cursor !== null && cursor < times.length ? cursor : times.length - 1;
  const valueOf = (each) => format(each.values[where]);
  const spoken = `${title}: ${series.map((each) => `${each.label} ${format(each.values[times.length - 1])}`).join(", ")}`;
  return html`<figure class="chart">
    <figcaption><span class="chart-title">${title}</span>${note && html`<span class="chart-note">${note}</span>`}</figcaption>
    <div ref=${place} class="chart-plot" role="img" aria-label=${spoken}></div>
    <ul class="legend">${series.map((each, number) => html`<li key=${each.label}><svg viewBox="0 0 14 4" aria-hidden="true"><line x1="0" x2="14" y1="2" y2="2" class=${`line ${(each.colour ?? COLOURS[number % COLOURS.length]).slice(2)}`} stroke-dasharray=${each.dash ? "4 2" : undefined}/></svg>
      <span>${each.label}</span><b>${valueOf(each)}</b></li>`)}</ul>
  </figure>`;
}

/** A chart of what `remember` has kept under `key`. `lines`: [{label, pick(values)}]. */
export function HistoryChart({ of, lines, ...rest }) {
  const points = history(of);
  const times = points.map((point) => point.at);
  const series = lines.map((each) => ({ ...each, values: points.map((point) => each.pick(point.values) ?? null) }));
  if (times.length === 1) {
    times.unshift(times[0] - 1);
    for (const each of series) each.values.unshift(each.values[0]);
  }
  return html`<${Chart} times=${times} series=${series} ...${rest} />`;
}

/** The small line in a row of a table. */
export function Spark({ values, label }) {
  if (values.length < 2) return html`<span class="spark" aria-hidden="true"></span>`;
  const last = values.slice(-40);
  const high = Math.max(1, ...last);
  const points = last.map((value, place) => `${((place / (last.length - 1)) * 60).toFixed(1)},${(15 - (value / high) * 13).toFixed(1)}`).join(" ");
  return html`<svg class="spark" viewBox="0 0 60 16" role="img" aria-label=${label}><polyline points=${points}/></svg>`;
}
