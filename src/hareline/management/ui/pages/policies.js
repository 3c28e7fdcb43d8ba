import { html, useState, useTitle, useValue } from "../lib/view.js";
import { del, post, put } from "../lib/api.js";
import { path, shown } from "../lib/names.js";
import { usePoll } from "../lib/poll.js";
import { text } from "../lib/format.js";
import { vhost as chosenVhost } from "../lib/prefs.js";
import { has } from "../lib/session.js";
import { Badge, Card, Dialog, Empty, Field, Form, PageHead, Select, Waiting, attempt, confirm, tell } from "../parts/basics.js";
import { ClientTable, Grid } from "../parts/table.js";
import { ArgumentsForm, Pairs, tableOf, useDescriptions } from "../parts/arguments.js";
import { VhostField } from "../parts/queue_form.js";
import { rowsOf } from "./vhosts.js";

/** Queues of a preview. */
const SHOWN = 20;
const APPLY = [["all", "queues and exchanges"], ["queues", "queues"], ["classic_queues", "classic queues"], ["quorum_queues", "quorum queues"], ["streams", "streams"], ["exchanges", "exchanges"]];

function PolicyForm({ of, isOperator, vhost, onDone }) {
  const descriptions = useDescriptions();
  const [place, setPlace] = useState(of?.vhost ?? (vhost || "/"));
  const [name, setName] = useState(of?.name ?? "");
  const [pattern, setPattern] = useState(of?.pattern ?? "");
  const [priority, setPriority] = useState(String(of?.priority ?? 0));
  const [apply, setApply] = useState(of?.["apply-to"] ?? "queues");
  const [values, setValues] = useState(of?.definition ?? {});
  const [pairs, setPairs] = useState([]);
  const [error, setError] = useState("");
  const keys = (descriptions?.policy_keys ?? []).filter((each) => !isOperator || each.is_operator);
  let patternProblem = "";
  try {
    new RegExp(pattern);
  } catch (problem) {
    patternProblem = problem.message;
  }
  const [effects, setEffects] = useState(null);
  const kind = isOperator ? "operator-policies" : "policies";
  async function send(ask) {
    setError("");
    try {
      const definition = { ...values, ...tableOf(pairs) };
      if (!Object.keys(definition).length) throw new Error("Set at least one key: a policy without any does nothing.");
      await ask({ pattern, priority: Number(priority), "apply-to": apply, definition });
    } catch (failure) {
      setError(failure.message);
    }
  }
  const onSubmit = () => send(async (body) => {
    await put(path`/${kind}/${place}/${name}`, body);
    tell(`Policy ${shown(name)} is set.`);
    onDone();
  });
  const onPreview = () => send(async (body) => setEffects(await post(path`/hareline/${kind}/${place}/${name || "new"}/preview`, body, { query: { page: 1, page_size: SHOWN } })));
  return html`<${Form} onSubmit=${onSubmit} submit=${of ? "Save" : "Add"} error=${error}>
    <div class="columns"><${Field} label="Name"><input required autofocus disabled=${Boolean(of)} value=${name} spellcheck="false" onInput=${(event) => setName(event.target.value)} /><//>${!of && html`<${VhostField} value=${place} onChange=${setPlace} />`}
      <${Field} label="Pattern" hint=${patternProblem || "a regular expression for names, such as ^orders\\."}><input required class="mono" value=${pattern} spellcheck="false" onInput=${(event) => setPattern(event.target.value)} /><//>
      <${Field} label="Priority" hint="the highest that fits counts"><input type="number" value=${priority} onInput=${(event) => setPriority(event.target.value)} /><//>
      <${Field} label="Applies to"><${Select} value=${apply} onChange=${setApply} options=${isOperator ? APPLY.filter(([id]) => id.includes("queues") || id === "streams") : APPLY} /><//></div>
    ${descriptions && html`<${ArgumentsForm} all=${keys} groups=${descriptions.groups} values=${values} onChange=${setValues} />`}
    <${Pairs} label="Other keys" pairs=${pairs} onChange=${setPairs} nameHint="key" />
    <p><button type="button" class="small" onClick=${onPreview}>Which queues would this match?</button></p>
    ${effects && html`<${Effects} of=${effects} />`}<//>`;
}

/** What a policy would change, before it is saved. */
function Effects({ of }) {
  if (!of.total_count) return html`<${Empty} title="No queue matches now"><p>Queues that are declared later may.</p><//>`;
  const more = of.total_count - of.items.length;
  return html`<${Grid} caption="Queues that match" keyOf=${(row) => row.name} rows=${of.items} columns=${[
    { key: "name", label: "Queue", view: (row) => html`${shown(row.name)}<span class="sub">${row.type}</span>` },
    { key: "changes", label: "What would change", view: (row) => row.problem ? html`<${Badge} tone="warn">cannot follow<//> ${shown(row.problem)}` : row.changes.length ? row.changes.map((each) => html`<div key=${each.name}><code>${each.name}</code> ${said(each.before)} → ${said(each.after)}</div>`) : row.decides ? "nothing" : html`nothing: ${shown(row.policy ?? row.operator_policy)} has a higher priority` }]} />
    ${more > 0 && html`<p class="muted">And ${String(more)} more.</p>`}`;
}

const said = (value) => value === null ? html`<span class="muted">not set</span>` : html`<code>${shown(text(value))}</code>`;

/** For which names a pattern takes so long that the policy is not applied to them. */
function TooSlow({ of }) {
  const more = of.slow_count - of.slow_names.length;
  return html`<span class="sub"><${Badge} tone="warn">too slow for ${String(of.slow_count)}<//> not applied to ${of.slow_names.map(shown).join(", ")}${more > 0 && ` and ${more} more`}: make the pattern simpler</span>`;
}

function List({ title, kind, isOperator, vhost, intro }) {
  const poll = usePoll(vhost ? path`/${kind}/${vhost}` : `/${kind}`, { every: 15_000 });
  const [editing, setEditing] = useState(null);
  const mayChange = has(isOperator ? "administrator" : "policymaker");
  async function onDelete(policy) {
    if (await confirm({ title: "Delete the policy", text: `Delete policy ${shown(policy.name)}? What it set changes at once.`, action: "Delete" }) && await attempt(() => del(path`/${kind}/${policy.vhost}/${policy.name}`), "Deleted.")) poll.reload();
  }
  return html`<${Card} title=${title} actions=${mayChange && html`<button type="button" class="small primary" onClick=${() => setEditing({})}>Add</button>`}><p class="muted">${intro}</p>
    ${!poll.data ? html`<${Waiting} poll=${poll} what="policies" />` : html`<${ClientTable} rows=${rowsOf(poll.data)} what="policy" whats="policies" caption=${title} keyOf=${(each) => `${each.vhost} ${each.name}`} initial=${{ sort: "priority", reverse: true }} columns=${[
      { key: "name", label: "Policy", view: (each) => html`${mayChange ? html`<button type="button" class="link" onClick=${() => setEditing(each)}>${shown(each.name)}</button>` : shown(each.name)}${!vhost && html`<span class="sub">${shown(each.vhost)}</span>`}` },
      { key: "pattern", label: "Pattern", view: (each) => html`<code>${shown(each.pattern)}</code>${each.slow_count > 0 && html`<${TooSlow} of=${each} />`}` }, { key: "apply-to", label: "Applies to", view: (each) => each["apply-to"] }, { key: "priority", label: "Priority", end: true },
      { key: "definition", label: "Sets", sort: false, view: (each) => Object.entries(each.definition).map(([name, value]) => html`<div key=${name}><code>${name}</code> = <code>${shown(text(value))}</code></div>`) },
      ...(mayChange ? [{ key: "do", label: "Change", sort: false, view: (each) => html`<button type="button" class="small danger" onClick=${() => onDelete(each)}>Delete</button>` }] : [])]} />`}
    ${editing && html`<${Dialog} wide title=${editing.name === undefined ? "Add a policy" : `Policy ${shown(editing.name)}`} onClose=${() => setEditing(null)}><${PolicyForm} of=${editing.name === undefined ? null : editing} isOperator=${isOperator} vhost=${vhost} onDone=${() => { setEditing(null); poll.reload(); }} /><//>`}<//>`;
}

export function Policies() {
  useTitle("Policies");
  const vhost = useValue(chosenVhost);
  return html`<${PageHead} title="Policies" badges=${vhost && html`<${Badge}>${shown(vhost)}<//>`} intro="A policy sets arguments of all queues or exchanges whose names match, also of those that exist. A queue's Settings say which value is in force." />
    <${List} title="Policies" kind="policies" vhost=${vhost} intro="Of the policies that fit an object, the one with the highest priority counts." />
    <${List} title="Operator policies" kind="operator-policies" isOperator vhost=${vhost} intro="Limits of the operator: they count beside the queue's own policy, and the smaller value wins." />`;
}
