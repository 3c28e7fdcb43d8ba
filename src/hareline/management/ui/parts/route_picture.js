// Pictures of routes: boxes and curves in SVG, made as nodes, so names are text and never markup.
import { html, useId } from "../lib/view.js";
import { count } from "../lib/format.js";
import { exchangeName, shown } from "../lib/names.js";
import { href } from "../lib/router.js";

const WIDTH = 172;
const HEIGHT = 40;
const GAP = 18;
const COLUMN = 384;
const LINE = 13;

const cut = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

/**
 * `nodes`: [{id, column, kind: exchange|queue|dead|more, name, note, link}], `edges`: [{from, to,
 * label: a text or several, tone}]. Columns go from left to right. A label stands where fewer edges
 * meet, so that labels do not cover each other.
 */
export function RoutePicture({ nodes, edges, label }) {
  const id = useId("route");
  const columns = [...new Set(nodes.map((node) => node.column))].sort((a, b) => a - b);
  const places = new Map();
  let rows = 1;
  for (const [number, column] of columns.entries()) {
    const inColumn = nodes.filter((node) => node.column === column);
    rows = Math.max(rows, inColumn.length);
    for (const [row, node] of inColumn.entries()) places.set(node.id, { x: number * COLUMN + 4, row, of: inColumn.length, node });
  }
  const height = rows * (HEIGHT + GAP) + GAP;
  for (const place of places.values()) place.y = (height - place.of * (HEIGHT + GAP) + GAP) / 2 + place.row * (HEIGHT + GAP);
  const width = (columns.length - 1) * COLUMN + WIDTH + 8;
  return html`<div class="route-box" role="region" aria-label=${label} tabindex="0"><svg class="route" viewBox=${`0 0 ${width} ${height}`} role="group" aria-labelledby=${id} style=${{ maxWidth: `${width * 1.25}px` }}><title id=${id}>${label}</title>
    <defs><marker id=${`${id}-arrow`} viewBox="0 0 8 8" refX="7" refY="4" markerWidth="9" markerHeight="9" markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0L8 4L0 8z"/></marker></defs>
    ${edges.filter((edge) => places.has(edge.from) && places.has(edge.to)).map((edge, number) => {
      const a = places.get(edge.from);
      const b = places.get(edge.to);
      const x1 = a.x + WIDTH;
      const y1 = a.y + HEIGHT / 2;
      const x2 = b.x - 3;
      const y2 = b.y + HEIGHT / 2;
      const bend = Math.max(40, Math.abs(x2 - x1) / 2);
      const isAtSource = edges.filter((each) => each.to === edge.to).length > edges.filter((each) => each.from === edge.from).length;
      const [x, y] = isAtSource ? [x1 + 10, y1 - 6] : [x2 - 12, y2 - 6];
      const labels = [edge.label ?? ""].flat().filter(Boolean);
      return html`<g key=${number}><path class=${`edge ${edge.tone ?? ""}`} d=${`M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`} marker-end=${`url(#${id}-arrow)`}/>
        ${labels.length > 0 && html`<text class="edge-label" text-anchor=${isAtSource ? "start" : "end"}><title>${labels.join(", ")}</title>${labels.map((label, line) => html`<tspan key=${line} x=${x} y=${y - (labels.length - 1 - line) * LINE}>${cut(label, 26)}</tspan>`)}</text>`}</g>`;
    })}
    ${[...places.values()].map(({ x, y, node }) => { const box = html`<rect x=${x} y=${y} width=${WIDTH} height=${HEIGHT} rx=${node.kind === "exchange" ? 20 : 7}/><text x=${x + WIDTH / 2} y=${y + (node.note ? 17 : 25)} text-anchor="middle">${cut(node.name, 21)}<title>${node.name}</title></text>${node.note && html`<text class="small" x=${x + WIDTH / 2} y=${y + 31} text-anchor="middle">${cut(node.note, 30)}</text>`}`;
      return html`<g key=${node.id} class=${`node ${node.kind}`}>${node.link ? html`<a href=${node.link}>${box}</a>` : box}</g>`; })}
  </svg></div>`;
}

const LABELS_MAX = 3;
const SOURCES_MAX = 14;

function keysOf(bindings) {
  const texts = bindings.map((binding) => {
    const filter = binding.arguments?.["x-filter-jms-selector"];
    const matches = Object.entries(binding.arguments ?? {}).filter(([name]) => !name.startsWith("x-")).map(([name, value]) => `${name}=${value}`);
    return [shown(binding.routing_key) || (matches.length ? "" : "(no key)"), matches.join(" "), filter ? `[${filter}]` : ""].filter(Boolean).join(" ");
  });
  return texts.length > LABELS_MAX ? [...texts.slice(0, LABELS_MAX - 1), `and ${texts.length - LABELS_MAX + 1} more`] : texts;
}

function grouped(bindings, ends) {
  const groups = new Map();
  for (const binding of bindings) {
    const key = ends(binding);
    groups.set(key, [...(groups.get(key) ?? []), binding]);
  }
  return groups;
}

/** From exchanges to one queue, and on to where its dead letters go. `upstream`: bindings of those exchanges. */
export function QueueRoute({ vhost, queue, bindings, upstream = [], deadLetter }) {
  const nodes = [{ id: "queue", column: 2, kind: "queue", name: shown(queue.name), note: "this queue" }];
  const edges = [];
  const sources = [...grouped(bindings, (each) => each.source)];
  for (const [source, of] of sources.slice(0, SOURCES_MAX)) {
    nodes.push({ id: `x ${source}`, column: 1, kind: "exchange", name: exchangeName(source), note: source === "" ? "by the queue's name" : "exchange", link: source === "" ? undefined : href(["exchanges", vhost, source]) });
    edges.push({ from: `x ${source}`, to: "queue", label: source === "" ? shown(queue.name) : keysOf(of), tone: "taken" });
  }
  if (sources.length > SOURCES_MAX) nodes.push({ id: "more", column: 1, kind: "more", name: `and ${count(sources.length - SOURCES_MAX)} more`, note: "listed below" });
  for (const [pair, of] of [...grouped(upstream, (each) => `${each.source} ${each.destination}`)].slice(0, SOURCES_MAX)) {
    const { source, destination } = of[0];
    if (!nodes.some((node) => node.id === `x ${destination}`) || source === destination) continue;
    if (!nodes.some((node) => node.id === `u ${source}`)) nodes.push({ id: `u ${source}`, column: 0, kind: "exchange", name: exchangeName(source), note: "exchange", link: href(["exchanges", vhost, source]) });
    edges.push({ from: `u ${source}`, to: `x ${destination}`, label: keysOf(of), key: pair });
  }
  if (deadLetter) {
    nodes.push({ id: "dead", column: 3, kind: "dead", name: exchangeName(deadLetter.exchange), note: "dead letters", link: deadLetter.exchange ? href(["exchanges", vhost, deadLetter.exchange]) : undefined });
    edges.push({ from: "queue", to: "dead", label: deadLetter.key ? shown(deadLetter.key) : "own key", tone: "dead" });
  }
  return html`<${RoutePicture} label=${`How messages reach queue ${shown(queue.name)}`} nodes=${nodes} edges=${edges} />`;
}

/** From one exchange to what is bound to it. */
export function ExchangeRoute({ vhost, exchange, incoming, outgoing, total = outgoing.length }) {
  const nodes = [{ id: "self", column: 1, kind: "exchange", name: exchangeName(exchange.name), note: exchange.type }];
  const edges = [];
  for (const [source, of] of [...grouped(incoming, (each) => each.source)].slice(0, SOURCES_MAX)) {
    nodes.push({ id: `u ${source}`, column: 0, kind: "exchange", name: exchangeName(source), link: href(["exchanges", vhost, source]) });
    edges.push({ from: `u ${source}`, to: "self", label: keysOf(of) });
  }
  const ends = [...grouped(outgoing, (each) => `${each.destination_type} ${each.destination}`)];
  for (const [end, of] of ends.slice(0, SOURCES_MAX)) {
    const { destination, destination_type: kind } = of[0];
    nodes.push({ id: end, column: 2, kind, name: kind === "queue" ? shown(destination) : exchangeName(destination), note: kind, link: href([`${kind}s`, vhost, destination]) });
    edges.push({ from: "self", to: end, label: keysOf(of), tone: "taken" });
  }
  if (ends.length > SOURCES_MAX) nodes.push({ id: "more", column: 2, kind: "more", name: total > outgoing.length ? `${count(total)} bindings in all` : `and ${count(ends.length - SOURCES_MAX)} more`, note: "listed below" });
  const alternate = exchange.arguments?.["alternate-exchange"];
  if (alternate) {
    nodes.push({ id: "alternate", column: 2, kind: "exchange", name: exchangeName(alternate), note: "alternate", link: href(["exchanges", vhost, alternate]) });
    edges.push({ from: "self", to: "alternate", label: "if nothing matches", tone: "alternate" });
  }
  return html`<${RoutePicture} label=${`Bindings of exchange ${exchangeName(exchange.name)}`} nodes=${nodes} edges=${edges} />`;
}
