// Arguments and policy keys: forms that explain them, made of the description that the server gives.
import { html, useEffect, useMemo, useState, observable, useValue } from "../lib/view.js";
import { get } from "../lib/api.js";
import { session } from "../lib/session.js";
import { text } from "../lib/format.js";
import { Badge, DocLink } from "./basics.js";

const described = observable(null);
let isAsked = false;
session.watch(() => {
  isAsked = false;
  described.set(null);
});

/** {groups: [[id, title]], arguments: [...], policy_keys: [...]}, or null until it is there. */
export function useDescriptions() {
  const value = useValue(described);
  useEffect(() => {
    if (isAsked) return;
    isAsked = true;
    get("/hareline/queue-arguments").then((answer) => described.set(answer)).catch((error) => described.set({ groups: [], arguments: [], policy_keys: [], error: error.message }));
  }, []);
  return value;
}

const UNITS = { duration_ms: [["1", "ms"], ["1000", "seconds"], ["60000", "minutes"], ["3600000", "hours"], ["86400000", "days"]], bytes: [["1", "bytes"], ["1024", "KiB"], ["1048576", "MiB"], ["1073741824", "GiB"]] };

function unitOf(value, units) {
  const fits = units.filter(([size]) => value !== 0 && value % Number(size) === 0);
  return (fits[fits.length - 1] ?? units[0])[0];
}

/** A number with a unit; its value is in the smallest unit. */
function Measured({ kind, value, onChange, label, hintId, minimum }) {
  const units = UNITS[kind];
  const [unit, setUnit] = useState(() => (typeof value === "number" ? unitOf(value, units) : units[1][0]));
  const number = typeof value === "number" ? value / Number(unit) : "";
  const parse = (written, size) => (written === "" ? undefined : Math.round(Number(written) * Number(size)));
  return html`<span class="measured"><input type="number" min=${minimum ?? 0} step="any" aria-label=${label} aria-describedby=${hintId} value=${number} onInput=${(event) => onChange(parse(event.target.value, unit))} />
    <select aria-label=${`Unit of ${label}`} value=${unit} onChange=${(event) => { setUnit(event.target.value); if (number !== "") onChange(parse(String(number), event.target.value)); }}>
      ${units.map(([size, name]) => html`<option key=${size} value=${size} selected=${size === unit}>${name}</option>`)}</select></span>`;
}

/** The input of one described argument. `onChange(undefined)`: it is not set. */
export function ArgumentInput({ of, value, onChange }) {
  const hintId = `hint-${of.name}`;
  const label = of.title;
  if (of.input === "flag") return html`<select aria-label=${label} aria-describedby=${hintId} value=${value === undefined ? "" : String(value)} onChange=${(event) => onChange(event.target.value === "" ? undefined : event.target.value === "true")}>
    <option value="" selected=${value === undefined}>not set</option><option value="true" selected=${value === true}>yes</option><option value="false" selected=${value === false}>no</option></select>`;
  if (of.input === "choice") return html`<select aria-label=${label} aria-describedby=${hintId} value=${value ?? ""} onChange=${(event) => onChange(event.target.value || undefined)}>
    <option value="" selected=${!value}>not set</option>${of.choices.map((choice) => html`<option key=${choice.value} value=${choice.value} selected=${choice.value === value}>${choice.value}</option>`)}</select>
    ${value && html`<span class="hint">${of.choices.find((choice) => choice.value === value)?.meaning}</span>`}`;
  if (of.input === "list") return html`<span role="group" aria-label=${label} aria-describedby=${hintId}>${of.choices.map((choice) => html`<label class="check" key=${choice.value}><input type="checkbox" checked=${(value ?? []).includes(choice.value)}
    onChange=${(event) => { const next = of.choices.map((each) => each.value).filter((each) => (each === choice.value ? event.target.checked : (value ?? []).includes(each))); onChange(next.length ? next : undefined); }} /><span>${choice.value}<span class="hint">${choice.meaning}</span></span></label>`)}</span>`;
  if (UNITS[of.input]) return html`<${Measured} kind=${of.input} value=${value} onChange=${onChange} label=${label} hintId=${hintId} minimum=${of.minimum} />`;
  if (of.input === "integer" || of.input === "number") return html`<input type="number" aria-label=${label} aria-describedby=${hintId} min=${of.minimum ?? undefined} max=${of.maximum ?? undefined} step=${of.input === "integer" ? 1 : "any"} value=${value ?? ""} placeholder=${`e.g. ${of.example}`}
    onInput=${(event) => onChange(event.target.value === "" ? undefined : Number(event.target.value))} />`;
  if (of.input === "json") return html`<${JsonInput} label=${label} hintId=${hintId} value=${value} example=${of.example} onChange=${onChange} />`;
  return html`<input aria-label=${label} aria-describedby=${hintId} value=${value ?? ""} placeholder=${`e.g. ${of.example}`} spellcheck="false" onInput=${(event) => onChange(event.target.value === "" ? undefined : event.target.value)} />`;
}

function JsonInput({ label, hintId, value, example, onChange }) {
  const [written, setWritten] = useState(value === undefined ? "" : text(value));
  const [problem, setProblem] = useState("");
  function onInput(event) {
    const next = event.target.value;
    setWritten(next);
    if (!next.trim()) {
      setProblem("");
      onChange(undefined);
      return;
    }
    try {
      onChange(JSON.parse(next));
      setProblem("");
    } catch {
      setProblem("not valid JSON yet");
    }
  }
  return html`<textarea aria-label=${label} aria-describedby=${hintId} aria-invalid=${problem ? "true" : undefined} value=${written} placeholder=${text(example)} onInput=${onInput} />${problem && html`<span class="hint">${problem}</span>`}`;
}

/** All arguments of one kind of queue, in groups. `values` -> onChange(values). */
export function ArgumentsForm({ all, groups, values, onChange, queueType, wantsName = true }) {
  const [wanted, setWanted] = useState("");
  const needle = wanted.toLowerCase();
  const fitting = useMemo(() => all.filter((each) => !queueType || !each.queue_types || each.queue_types.includes(queueType)), [all, queueType]);
  const found = needle ? fitting.filter((each) => `${each.name} ${each.title} ${each.summary} ${(each.aliases ?? []).join(" ")}`.toLowerCase().includes(needle)) : fitting;
  const set = (name, value) => {
    const next = { ...values };
    if (value === undefined) delete next[name];
    else next[name] = value;
    onChange(next);
  };
  return html`<div class="arguments"><input type="search" aria-label="Find an argument" placeholder="Find an argument: ttl, limit, dead letter …" value=${wanted} onInput=${(event) => setWanted(event.target.value)} />
    ${groups.map(([group, title]) => {
      const rows = found.filter((each) => each.group === group);
      if (!rows.length) return null;
      const used = rows.filter((each) => values[each.name] !== undefined).length;
      return html`<details class="group" key=${group} open=${Boolean(needle) || used > 0 || ["limits", "time", "dead-letters"].includes(group)}><summary>${title} ${used > 0 && html`<${Badge} tone="accent">${used} set<//>`}</summary>
        ${rows.map((each) => html`<div class="argument" key=${each.name}><div><b>${each.title}</b> ${wantsName && html`<span class="name">${each.name}</span>`}<span class="hint" id=${`hint-${each.name}`}>${each.summary}</span><span class="hint"><${DocLink} page=${each.page}>more<//></span></div>
          <div><${ArgumentInput} of=${each} value=${values[each.name]} onChange=${(value) => set(each.name, value)} /></div></div>`)}</details>`;
    })}
    ${!found.length && html`<p class="muted">No argument matches.</p>`}
  </div>`;
}

const KINDS = [["string", "text"], ["number", "number"], ["boolean", "true / false"], ["json", "JSON"]];

export const emptyPair = () => ({ name: "", value: "", kind: "string" });

/** Rows of name, value and type: for headers and for arguments that have no description. */
export function Pairs({ label, pairs, onChange, nameHint = "name" }) {
  const set = (place, change) => onChange(pairs.map((pair, number) => (number === place ? { ...pair, ...change } : pair)));
  return html`<fieldset><legend>${label}</legend>
    ${pairs.map((pair, place) => html`<div class="pair" key=${place}><input aria-label=${`${label}: name ${place + 1}`} placeholder=${nameHint} value=${pair.name} spellcheck="false" onInput=${(event) => set(place, { name: event.target.value })} />
      <input aria-label=${`${label}: value ${place + 1}`} placeholder="value" value=${pair.value} spellcheck="false" onInput=${(event) => set(place, { value: event.target.value })} />
      <select aria-label=${`${label}: type ${place + 1}`} value=${pair.kind} onChange=${(event) => set(place, { kind: event.target.value })}>${KINDS.map(([kind, shownKind]) => html`<option key=${kind} value=${kind} selected=${kind === pair.kind}>${shownKind}</option>`)}</select>
      <button type="button" class="icon" aria-label=${`Remove ${pair.name || `row ${place + 1}`}`} onClick=${() => onChange(pairs.filter((_, number) => number !== place))}>✕</button></div>`)}
    <div><button type="button" class="small" onClick=${() => onChange([...pairs, emptyPair()])}>Add ${nameHint === "header" ? "a header" : "a row"}</button></div></fieldset>`;
}

/** The table that rows stand for. Raises Error with a sentence. */
export function tableOf(pairs) {
  const table = {};
  for (const { name, value, kind } of pairs) {
    if (!name && !value) continue;
    if (!name) throw new Error(`The value ${value} has no name.`);
    if (kind === "number") {
      if (value.trim() === "" || !Number.isFinite(Number(value))) throw new Error(`${name}: ${value || "nothing"} is not a number.`);
      table[name] = Number(value);
    } else if (kind === "boolean") {
      if (!["true", "false"].includes(value)) throw new Error(`${name}: write true or false.`);
      table[name] = value === "true";
    } else if (kind === "json") {
      try {
        table[name] = JSON.parse(value);
      } catch {
        throw new Error(`${name}: ${value} is not valid JSON.`);
      }
    } else table[name] = value;
  }
  return table;
}

