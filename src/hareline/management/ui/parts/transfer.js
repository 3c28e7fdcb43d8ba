// Dialogs for many messages of a queue: where they are moved or copied to, and how many are purged.
import { html, useState } from "../lib/view.js";
import * as operations from "../lib/operations.js";
import { count, plural } from "../lib/format.js";
import { shown } from "../lib/names.js";
import { Check, Dialog, Field, Form, Select, tell } from "./basics.js";
import { NameInput } from "./names.js";
import { operate } from "./work.js";

/** `body`: which messages; `what`: the same in words. */
export function TransferForm({ isCopy, vhost, queue, body, what, onClose, onDone }) {
  const [kind, setKind] = useState("queue");
  const [name, setName] = useState("");
  const [isKept, setKept] = useState(true);
  const [key, setKey] = useState("");
  const [error, setError] = useState("");
  const [isBusy, setBusy] = useState(false);
  const verb = isCopy ? "Copy" : "Move";
  async function onSubmit() {
    setBusy(true);
    setError("");
    const to = kind === "queue" ? { to_queue: name } : { to_exchange: name || "amq.default", ...(isKept ? {} : { routing_key: key }) };
    try {
      await operate(verb, operations.queuePath(vhost, queue.name), isCopy ? "copy" : "move", { ...body, ...to }, isCopy ? "copied" : "moved", { throws: true });
      onClose();
      onDone();
    } catch (failure) {
      setError(failure.message);
    }
    setBusy(false);
  }
  return html`<${Dialog} title=${`${verb} ${what}`} onClose=${onClose}><${Form} onSubmit=${onSubmit} submit=${verb} error=${error} busy=${isBusy}>
    <div class="columns"><${Field} label="To a"><${Select} value=${kind} onChange=${(next) => { setKind(next); setName(""); }} options=${[["queue", "queue"], ["exchange", "exchange, which routes them"]]} /><//>
      <${Field} label=${kind === "queue" ? "Queue" : "Exchange"} hint=${kind === "queue" ? `in virtual host ${shown(vhost)}` : "empty: the default exchange"}><${NameInput} key=${kind} kind=${kind} vhost=${vhost} value=${name} onChange=${setName} autofocus required=${kind === "queue"} /><//></div>
    ${kind === "exchange" && html`<${Check} label="Each message keeps its routing key" checked=${isKept} onChange=${setKept} />${!isKept && html`<${Field} label="Routing key" hint="for all of them"><input value=${key} spellcheck="false" onInput=${(event) => setKey(event.target.value)} /><//>`}`}
    <p class="muted">${isCopy ? "The messages stay here too." : "A message leaves this queue once its target has it."} What the target has no room for stays, and the answer says so.</p><//><//>`;
}

const ASKED_FROM = 1000;

export function PurgeForm({ vhost, queue, onClose, onDone }) {
  const [part, setPart] = useState("all");
  const [number, setNumber] = useState("");
  const [typed, setTyped] = useState("");
  const [error, setError] = useState("");
  const [isBusy, setBusy] = useState(false);
  const there = queue.messages_ready ?? 0;
  const goes = part === "all" ? there : Math.min(there, Number(number) || 0);
  const mustType = part === "all" && there > ASKED_FROM;
  async function onSubmit() {
    setBusy(true);
    setError("");
    try {
      if (part === "all") {
        await operations.purge(vhost, queue.name);
        tell("Purged.");
        onClose();
      } else if (await operate("Purge", operations.queuePath(vhost, queue.name), "purge", { limit: Number(number) }, "deleted", { throws: true })) onClose();
    } catch (failure) {
      setError(failure.message);
    }
    setBusy(false);
    onDone();
  }
  return html`<${Dialog} title="Purge the queue" onClose=${onClose}><${Form} onSubmit=${onSubmit} submit="Purge" isDanger error=${error} busy=${isBusy || (mustType && typed !== queue.name && "the name is not typed")}
      secondary=${html`<button type="button" onClick=${onClose}>Cancel</button>`}>
    <div class="columns"><${Field} label="Remove"><${Select} value=${part} onChange=${setPart} options=${[["all", "all messages that are ready"], ["first", "the first messages"]]} /><//>
      ${part === "first" && html`<${Field} label="How many" hint=${`of ${count(there)}, from the head`}><input type="number" min="1" required autofocus value=${number} onInput=${(event) => setNumber(event.target.value)} /><//>`}</div>
    ${mustType && html`<${Field} label=${html`Type <code>${shown(queue.name)}</code> to confirm`}><input value=${typed} autocomplete="off" spellcheck="false" onInput=${(event) => setTyped(event.target.value)} /><//>`}
    <p class="muted">${goes ? `${plural(goes, "message")} of ${shown(queue.name)} will be gone for good.` : "Nothing is removed."} What consumers have stays with them; nothing is dead-lettered.</p><//><//>`;
}
