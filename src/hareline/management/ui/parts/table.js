// Lists. ServerTable asks the server for one page, sorted and filtered there, so that it stays fast
// with any number of objects; ClientTable is for lists that are always short.
import { html, useEffect, useMemo, useRef, useState, useValue } from "../lib/view.js";
import { usePoll } from "../lib/poll.js";
import { route, setParams } from "../lib/router.js";
import { at, count, plural } from "../lib/format.js";
import { Empty, Failure } from "./basics.js";

const SIZES = [25, 50, 100, 250, 500];

/** column: {key, label, view(row), sort (path, or false), end (aligned right), title, least (hidden on phones)} */
export function Grid({ columns, rows, keyOf, caption, sort, isReversed, onSort, isBusy }) {
  const body = useRef(null);
  function onKeyDown(event) {
    if (!["ArrowDown", "ArrowUp", "j", "k"].includes(event.key) || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.matches("input, select, textarea")) return;
    const step = event.key === "ArrowDown" || event.key === "j" ? 1 : -1;
    const links = [...body.current.querySelectorAll("tr > *:first-child a, tr > *:first-child button")];
    const row = event.target.closest("tr");
    const now = links.findIndex((link) => row?.contains(link));
    const next = links[now + step];
    if (next) {
      event.preventDefault();
      next.focus();
    }
  }
  return html`<div class="table-box" role="region" aria-label=${`Table: ${caption}`} tabindex="0"><table aria-busy=${isBusy ? "true" : "false"}>
    <caption class="away">${caption}</caption>
    <thead><tr>${columns.map((column) => {
      const key = column.sort === undefined ? column.key : column.sort;
      const isSorted = key && key === sort;
      return html`<th key=${column.key} scope="col" class=${`${column.end ? "end" : ""} ${column.least ? "least" : ""}`} title=${column.title}
        aria-sort=${isSorted ? (isReversed ? "descending" : "ascending") : undefined}>
        ${key && onSort ? html`<button type="button" class="sort" onClick=${() => onSort(key)}>${column.label}<span class="arrow" aria-hidden="true">${isSorted ? (isReversed ? "▾" : "▴") : ""}</span></button>` : column.label}</th>`;
    })}</tr></thead>
    <tbody ref=${body} onKeyDown=${onKeyDown}>${rows.map((row) => html`<tr key=${keyOf(row)}>${columns.map((column, place) => {
      const inner = column.view ? column.view(row) : at(row, column.key);
      const attributes = { class: `${column.end ? "end" : ""} ${column.least ? "least" : ""} ${column.class ?? ""}`, "data-label": column.label };
      return place === 0 ? html`<th key=${column.key} scope="row" ...${attributes}>${inner}</th>` : html`<td key=${column.key} ...${attributes}>${inner}</td>`;
    })}</tr>`)}</tbody></table></div>`;
}

function Filter({ value, onChange, label, isRegex, onRegex, children }) {
  const [text, setText] = useState(value);
  const timer = useRef(0);
  useEffect(() => setText(value), [value]);
  function onInput(event) {
    const next = event.target.value;
    setText(next);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => onChange(next), 250);
  }
  return html`<div class="filter" role="search"><input type="search" class="filter-input" value=${text} placeholder=${label} aria-label=${label} onInput=${onInput} spellcheck="false" autocomplete="off" />
    ${onRegex && html`<label class="check small"><input type="checkbox" checked=${isRegex} onChange=${(event) => onRegex(event.target.checked)} /><span>Regular expression</span></label>`}
    ${children}</div>`;
}

function Pages({ page, pageCount, onPage, children, caption = "the list" }) {
  return html`<nav class="pages" aria-label=${`Pages of ${caption}`}>
    <span class="pages-count" role="status">${children}</span>
    ${pageCount > 1 && html`<span class="pages-buttons"><button type="button" class="small" disabled=${page <= 1} onClick=${() => onPage(page - 1)} aria-label="Previous page" data-key="[">‹</button>
      <span>page ${count(page)} of ${count(pageCount)}</span>
      <button type="button" class="small" disabled=${page >= pageCount} onClick=${() => onPage(page + 1)} aria-label="Next page" data-key="]">›</button></span>`}
  </nav>`;
}

/**
 * A list of the API. `path`: of the list; `query`: further parameters; `what`: "queue";
 * `initial`: {sort, reverse}. Page, order and filter are in the address.
 */
export function ServerTable({ path, query, columns, keyOf, what, whats = `${what}s`, initial = {}, tools, emptyText, size: firstSize = 50, onData, filterLabel }) {
  const { params } = useValue(route);
  const page = Math.max(1, Number(params.page) || 1);
  const size = SIZES.includes(Number(params.size)) ? Number(params.size) : firstSize;
  const sort = params.sort ?? initial.sort ?? "name";
  const isReversed = params.reverse !== undefined ? params.reverse === "1" : Boolean(initial.reverse);
  const name = params.filter ?? "";
  const isRegex = params.regex === "1";
  const poll = usePoll(path, { onData, query: {
    page, page_size: size, pagination: true, sort, sort_reverse: isReversed, name, use_regex: isRegex || undefined, ...query,
  } });
  const answer = poll.data;
  const rows = Array.isArray(answer) ? answer : answer?.items ?? [];
  const total = answer?.filtered_count ?? rows.length;
  const pageCount = answer?.page_count ?? 1;
  useEffect(() => {
    if (answer && page > 1 && page > pageCount) setParams({ page: Math.max(1, pageCount) });
  }, [answer, page, pageCount]);
  useEffect(() => {
    if (poll.error?.error === "page_out_of_range") setParams({ page: undefined });
  }, [poll.error]);
  const onSort = (key) => setParams({ sort: key, reverse: key === sort ? (isReversed ? "0" : "1") : firstDirection(key), page: undefined });
  return html`<div class="listing">
    <div class="listing-tools"><${Filter} value=${name} label=${filterLabel ?? `Filter ${whats} by name`} isRegex=${isRegex} onChange=${(next) => setParams({ filter: next, page: undefined })} onRegex=${(next) => setParams({ regex: next ? "1" : undefined, page: undefined })} />
      ${tools}</div>
    ${poll.error && html`<${Failure} error=${poll.error} what="list" onRetry=${poll.reload} />`}
    ${answer === null && !poll.error && html`<p class="waiting" role="status"><span class="spinner" aria-hidden="true"></span> Loading ${whats} …</p>`}
    ${answer && rows.length > 0 && html`<${Grid} columns=${columns} rows=${rows} keyOf=${keyOf} caption=${`List of ${whats}`} sort=${sort} isReversed=${isReversed} onSort=${onSort} />`}
    ${answer && rows.length === 0 && html`<${Empty} title=${name ? `No ${what} matches “${name}”` : emptyText ?? `There are no ${whats}`}>
      ${name && html`<button type="button" onClick=${() => setParams({ filter: undefined, page: undefined })}>Show all</button>`}<//>`}
    ${answer && html`<${Pages} page=${page} pageCount=${pageCount} onPage=${(next) => setParams({ page: next })}>
      ${plural(total, what, whats)}${answer.total_count > total ? ` of ${count(answer.total_count)}` : ""}${" · "}<label class="size">rows <select value=${String(size)} onChange=${(event) => setParams({ size: event.target.value, page: undefined })}>
        ${SIZES.map((each) => html`<option key=${each} value=${String(each)} selected=${each === size}>${each}</option>`)}</select></label><//>`}
  </div>`;
}

/** Numbers are asked for with the greatest first. */
const firstDirection = (key) => (/(^name|user|vhost|type|state|host|tag|pattern|key|source|queue\.name)/.test(key) ? "0" : "1");

const SHOWN_MAX = 100;

/** A short list that is there already; sorted and filtered here. */
export function ClientTable({ rows, columns, keyOf, what, whats = `${what}s`, initial = {}, emptyText, tools, caption = `List of ${whats}`, hasFilter = rows.length > 10, textOf = (row) => JSON.stringify(row) }) {
  const [order, setOrder] = useState({ sort: initial.sort ?? columns[0].key, isReversed: Boolean(initial.reverse) });
  const [wanted, setWanted] = useState("");
  const [page, setPage] = useState(1);
  const column = columns.find((each) => (each.sort || each.key) === order.sort);
  const found = useMemo(() => {
    const needle = wanted.toLowerCase();
    const kept = needle ? rows.filter((row) => textOf(row).toLowerCase().includes(needle)) : [...rows];
    const valueOf = column?.value ?? ((row) => at(row, order.sort));
    kept.sort((a, b) => compare(valueOf(a), valueOf(b)) * (order.isReversed ? -1 : 1));
    return kept;
  }, [rows, wanted, order]);
  const pageCount = Math.max(1, Math.ceil(found.length / SHOWN_MAX));
  const now = Math.min(page, pageCount);
  return html`<div class="listing">
    ${(hasFilter || tools) && html`<div class="listing-tools">${hasFilter && html`<${Filter} value=${wanted} label=${`Filter ${whats}`} onChange=${setWanted} />`}${tools}</div>`}
    ${found.length ? html`<${Grid} columns=${columns} rows=${found.slice((now - 1) * SHOWN_MAX, now * SHOWN_MAX)} keyOf=${keyOf} caption=${caption} sort=${order.sort} isReversed=${order.isReversed}
        onSort=${(key) => setOrder({ sort: key, isReversed: key === order.sort ? !order.isReversed : false })} />`
      : html`<${Empty} title=${wanted ? `No ${what} matches “${wanted}”` : emptyText ?? `There are no ${whats}`} />`}
    ${found.length > 0 && html`<${Pages} page=${now} pageCount=${pageCount} onPage=${setPage} caption=${caption}>${plural(found.length, what, whats)}<//>`}
  </div>`;
}

function compare(a, b) {
  if (typeof a === "number" || typeof b === "number") return (a ?? -Infinity) - (b ?? -Infinity);
  return String(a ?? "").localeCompare(String(b ?? ""), "en", { numeric: true });
}
