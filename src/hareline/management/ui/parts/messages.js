// The message browser of a queue: pages of messages from either end, which stay where they are,
// and what can be done with those that are chosen.
import { html, useEffect, useState } from "../lib/view.js";
import * as operations from "../lib/operations.js";
import { shown, exchangeName } from "../lib/names.js";
import { ago, bytes, count, moment, plural, text, toMs, until } from "../lib/format.js";
import { Badge, Copy, Empty, Facts, Failure, Field, Form, Select, confirm } from "./basics.js";
import { ImportForm, saveMessages } from "./files.js";
import { TransferForm } from "./transfer.js";
import { operate } from "./work.js";

const PAGE = 25;

/** The body as octets, whatever encoding it came in. */
function octetsOf(message) {
  if (typeof message.payload !== "string") return new TextEncoder().encode(message.payload === null || message.payload === undefined ? "" : JSON.stringify(message.payload));
  if (message.payload_encoding === "hex") return Uint8Array.from(message.payload.match(/../g) ?? [], (each) => Number.parseInt(each, 16));
  if (message.payload_encoding === "base64") return Uint8Array.from(atob(message.payload ?? ""), (each) => each.charCodeAt(0));
  return new TextEncoder().encode(message.payload ?? "");
}

function hexOf(octets) {
  const lines = [];
  for (let start = 0; start < Math.min(octets.length, 16_384); start += 16) {
    const row = octets.slice(start, start + 16);
    const hex = [...row].map((each) => each.toString(16).padStart(2, "0")).join(" ");
    const letters = [...row].map((each) => (each > 31 && each < 127 ? String.fromCharCode(each) : "·")).join("");
    lines.push(`${start.toString(16).padStart(6, "0")}  ${hex.padEnd(48)} ${letters}`);
  }
  return lines.join("\n");
}

export function Body({ message }) {
  const octets = octetsOf(message);
  let asText = null;
  let asJson = null;
  try {
    asText = new TextDecoder("utf-8", { fatal: true }).decode(octets);
    asJson = /^\s*[[{"]/.test(asText) ? JSON.stringify(JSON.parse(asText), null, 2) : null;
  } catch {
    // binary, or text that is not JSON
  }
  const forms = [asJson !== null && ["json", "JSON"], asText !== null && ["text", "Text"], ["hex", "Hex"]].filter(Boolean);
  const [form, setForm] = useState(forms[0][0]);
  const size = message.payload_bytes ?? octets.length;
  const view = form === "json" ? asJson : form === "text" ? asText : hexOf(octets);
  return html`<div class="stack"><div class="card-head"><div class="actions" role="group" aria-label="Show the body as">${forms.map(([id, label]) => html`<button key=${id} type="button" class="small" aria-pressed=${id === form ? "true" : "false"} onClick=${() => setForm(id)}>${label}</button>`)}</div>
      <div class="actions"><span class="muted">${bytes(size)}</span>${asText !== null && html`<${Copy} text=${asText} label="Copy body" />`}</div></div>
    <pre tabindex="0" aria-label="Message body">${view || "(empty)"}</pre>
    ${message.problem && html`<p class="muted">${message.problem}</p>`}
    ${octets.length < size && html`<p class="muted">The first ${bytes(octets.length)} of ${bytes(size)} are shown.</p>`}</div>`;
}

/** x-death in words, or null. */
export function deaths(message) {
  const list = message.properties?.headers?.["x-death"];
  return Array.isArray(list) && list.length ? list : null;
}

const idOf = (message) => message.offset;

/** `badge` and `facts`: what else is known of the message. */
export function MessageRow({ message, isChosen, onChoose, badge, facts = [] }) {
  const properties = message.properties ?? {};
  const headers = properties.headers ?? {};
  const died = deaths(message);
  const id = idOf(message);
  const when = toMs(message.arrival_ms);
  const preview = message.payload_encoding === "base64" ? `(${bytes(message.payload_bytes)} binary)` : (typeof message.payload === "string" ? message.payload : JSON.stringify(message.payload ?? "")).slice(0, 160);
  return html`<div class="checks">${onChoose && html`<input type="checkbox" aria-label=${`Choose message ${id}`} checked=${isChosen} onChange=${(event) => onChoose(event.target.checked)} />`}
    <details class="message grow-1"><summary><span class="mono">${id ?? ""}</span><span>${exchangeName(message.exchange)} <code>${shown(message.routing_key)}</code></span><span class="preview">${preview}</span>
      <span class="badges">${badge}${message.due_ms && html`<${Badge} tone="info" title=${moment(message.due_ms)}>${until(message.due_ms)}<//>`}${message.redelivered && html`<${Badge} tone="warn" title="has been delivered before">again<//>`}${died && html`<${Badge} tone="danger">${headers["x-first-death-reason"] ?? died[0].reason}<//>`}${message.state && message.state !== "ready" && !message.due_ms && html`<${Badge} tone="info">${message.state}<//>`}<span class="muted">${bytes(message.payload_bytes)}</span></span></summary>
      <div class="inside">
        <${Facts} items=${[...facts, ["Exchange", exchangeName(message.exchange)], ["Routing key", shown(message.routing_key)], ["Due", message.due_ms && `${moment(message.due_ms)} (${until(message.due_ms)})`], ["In this queue since", when && `${moment(when)} (${ago(when)})`], ["Expires", message.expires_at_ms && `${moment(message.expires_at_ms)} (${until(message.expires_at_ms)})`], ["Came back", message.delivery_count ? plural(message.delivery_count, "time") : undefined], ["Persistent", properties.delivery_mode === 2 ? "yes" : properties.delivery_mode === undefined ? undefined : "no"],
          ...Object.entries(properties).filter(([name]) => name !== "headers" && name !== "delivery_mode").map(([name, value]) => [name, shown(text(value))])]} />
        ${died && html`<div><h3>Why it is here</h3><ul class="plain">${died.map((death, place) => html`<li key=${place}><${Badge} tone="danger">${death.reason}<//> ${plural(death.count ?? 1, "time")} in <b>${shown(death.queue)}</b>, published to ${exchangeName(death.exchange)} with ${(death["routing-keys"] ?? []).map((key) => `“${shown(key)}”`).join(", ")}${death.time ? `, ${moment(toMs(death.time))}` : ""}</li>`)}</ul></div>`}
        ${Object.keys(headers).length > 0 && html`<div><h3>Headers</h3><${Facts} items=${Object.entries(headers).filter(([name]) => name !== "x-death").map(([name, value]) => [shown(name), shown(text(value))])} /></div>`}
        <${Body} message=${message} />
      </div></details></div>`;
}

export function MessageBrowser({ vhost, queue, onChanged }) {
  const [end, setEnd] = useState("head");
  const [where, setWhere] = useState("");
  const [applied, setApplied] = useState("");
  const [trail, setTrail] = useState([null]);
  const [state, setState] = useState({ items: null, error: null, next: null });
  const [chosen, setChosen] = useState(new Set());
  const [asking, setAsking] = useState(null);
  const [round, setRound] = useState(0);
  const from = trail[trail.length - 1];
  const isStream = queue.type === "stream";

  useEffect(() => {
    const aborter = new AbortController();
    setState((before) => ({ ...before, error: null }));
    operations.browse(vhost, queue.name, { count: PAGE, start: end, truncate: 65_536, ...(from === null ? {} : { position: from }), ...(applied ? { selector: applied } : {}) }, aborter.signal)
      .then((answer) => setState({ items: answer.messages, next: answer.position, error: null }))
      .catch((error) => error.name !== "AbortError" && setState({ items: null, error, next: null }));
    return () => aborter.abort();
  }, [vhost, queue.name, end, from, applied, round]);

  const restart = () => {
    setTrail([null]);
    setChosen(new Set());
    setRound((number) => number + 1);
  };
  const body = () => operations.selection({ offsets: [...chosen], selector: applied });
  const what = chosen.size ? plural(chosen.size, "message") : applied ? "all messages that match" : "all messages";
  const refresh = () => {
    restart();
    onChanged?.();
  };
  const run = async (title, operation, verb) => {
    await operate(title, operations.queuePath(vhost, queue.name), operation, body(), verb);
    refresh();
  };
  async function onDelete() {
    if (await confirm({ title: "Delete messages", text: `Delete ${what} of queue ${shown(queue.name)}? They are gone for good, and are not dead-lettered.`, action: "Delete", phrase: chosen.size || applied ? undefined : queue.name })) await run("Delete", "delete", "deleted");
  }
  async function onRetry() {
    if (chosen.size || await confirm({ title: "Retry dead letters", text: `Send ${what} of ${shown(queue.name)} back to the queues in which they died? Messages that did not die stay here.`, action: "Send back" })) await run("Retry", "retry", "retried");
  }
  function onExport() {
    const { all, ...some } = body();
    saveMessages(vhost, queue, some);
  }
  const items = state.items;
  return html`<div class="stack">
    <form class="inline-form" onSubmit=${(event) => { event.preventDefault(); setApplied(where.trim()); restart(); }}>
      <${Field} label="From"><${Select} value=${end} onChange=${(next) => { setEnd(next); restart(); }} options=${[["head", "the head (next to be delivered)"], ["end", "the end (newest first)"]]} /><//>
      <${Field} label="Where (JMS selector)" hint="e.g. colour = 'red' AND JMSPriority > 4"><input value=${where} spellcheck="false" onInput=${(event) => setWhere(event.target.value)} /><//>
      <button type="submit">Show</button></form>
    ${state.error && html`<${Failure} error=${state.error} what="list of messages" onRetry=${() => setRound(round + 1)} />`}
    ${items && html`<div class="bar"><div class="actions" role="group" aria-label=${`With ${what}`}><span class="muted">With ${what}:</span>
      ${!isStream && html`<button type="button" class="small" onClick=${() => setAsking("move")}>Move …</button>`}<button type="button" class="small" onClick=${() => setAsking("copy")}>Copy …</button>
      <button type="button" class="small" title="as a file; they stay here" onClick=${onExport}>Export</button>
      ${!isStream && html`<button type="button" class="small" title="dead letters go back to where they came from" onClick=${onRetry}>Retry dead letters</button>
      <button type="button" class="small danger" onClick=${onDelete}>Delete …</button>`}
      ${items.some((message) => !chosen.has(idOf(message))) && html`<button type="button" class="small" onClick=${() => setChosen(new Set([...chosen, ...items.map(idOf)]))}>Choose this page</button>`}
      ${chosen.size > 0 && html`<button type="button" class="small" onClick=${() => setChosen(new Set())}>Choose none</button>`}</div>
      <button type="button" class="small" onClick=${() => setAsking("import")}>Import …</button></div>`}
    ${items === null && !state.error && html`<p class="waiting" role="status"><span class="spinner" aria-hidden="true"></span> Loading messages …</p>`}
    ${items && items.length === 0 && html`<${Empty} title=${applied ? "No message matches the selector here" : "There is no message here"} />`}
    ${items && items.length > 0 && html`<div class="messages" role="list" aria-label="Messages">${items.map((message) => html`<div role="listitem" key=${idOf(message)}><${MessageRow} message=${message} isChosen=${chosen.has(idOf(message))}
      onChoose=${(isOn) => { const next = new Set(chosen); if (isOn) next.add(idOf(message)); else next.delete(idOf(message)); setChosen(next); }} /></div>`)}</div>`}
    ${items && html`<nav class="pages" aria-label="Pages of messages"><span>${count(items.length)} shown, read without disturbing them</span><span class="pages-buttons">
      <button type="button" class="small" disabled=${trail.length < 2} onClick=${() => setTrail(trail.slice(0, -1))}>‹ Back</button>
      <button type="button" class="small" disabled=${state.next === null} onClick=${() => setTrail([...trail, state.next])}>More ›</button></span></nav>`}
    ${(asking === "move" || asking === "copy") && html`<${TransferForm} isCopy=${asking === "copy"} vhost=${vhost} queue=${queue} body=${body()} what=${what} onClose=${() => setAsking(null)} onDone=${refresh} />`}
    ${asking === "import" && html`<${ImportForm} vhost=${vhost} queue=${queue} onClose=${() => setAsking(null)} onDone=${refresh} />`}
  </div>`;
}

/** Takes messages off the queue, or puts them back: what basic.get does. */
export function GetForm({ vhost, queue, onChanged }) {
  const [number, setNumber] = useState("1");
  const [mode, setMode] = useState("ack_requeue_true");
  const [messages, setMessages] = useState(null);
  const [error, setError] = useState("");
  async function onSubmit() {
    setError("");
    const takes = mode.endsWith("requeue_false");
    if (takes && !(await confirm({ title: "Take messages", text: `Take ${plural(Number(number), "message")} out of queue ${shown(queue.name)}? ${mode.startsWith("reject") ? "They are rejected, and dead-lettered if the queue says so." : "They are gone for good."}`, action: "Take" }))) return;
    try {
      setMessages(await operations.take(vhost, queue.name, { count: Number(number), ackmode: mode, encoding: "auto", truncate: 65_536 }));
      onChanged?.();
    } catch (failure) {
      setError(failure.message);
    }
  }
  return html`<${Form} onSubmit=${onSubmit} submit="Get" error=${error}><div class="columns">
      <${Field} label="How many"><input type="number" min="1" max="500" required value=${number} onInput=${(event) => setNumber(event.target.value)} /><//>
      <${Field} label="And then"><${Select} value=${mode} onChange=${setMode} options=${[["ack_requeue_true", "put them back (marked as redelivered)"], ["ack_requeue_false", "acknowledge: they are gone"], ["reject_requeue_false", "reject: they are dead-lettered"], ["reject_requeue_true", "return them: it counts for the delivery limit"]]} /><//></div><//>
    ${messages && html`<div class="messages">${messages.length ? messages.map((message, place) => html`<${MessageRow} key=${place} message=${message} />`) : html`<${Empty} title="The queue is empty" />`}</div>`}`;
}

