import { html, useState, useTitle, useValue } from "../lib/view.js";
import { path, shown } from "../lib/names.js";
import { history, remember } from "../lib/poll.js";
import { bytes, count, rate, signedRate } from "../lib/format.js";
import { vhost as chosenVhost } from "../lib/prefs.js";
import { route } from "../lib/router.js";
import { features, growth, inRate, outRate, tone, whyDeep } from "../lib/diagnose.js";
import { Badge, Dialog, PageHead, QueueLink } from "../parts/basics.js";
import { Spark } from "../parts/chart.js";
import { ServerTable } from "../parts/table.js";
import { QueueForm } from "../parts/queue_form.js";

const keyOf = (queue) => `queue ${queue.vhost} ${queue.name}`;

/** The list remembers depths, so that each row has a small curve. */
export function rememberDepths(answer) {
  for (const queue of Array.isArray(answer) ? answer.slice(0, 500) : answer.items) remember(keyOf(queue), { messages: queue.messages ?? 0 });
}

export const Marks = ({ queue }) => features(queue).map(([text, title, of]) => html`<${Badge} key=${text} tone=${of} title=${title}>${text}<//> `);

/** The state where it is not the usual one. */
function State({ of }) {
  const state = of.paused ? "paused" : of.state ?? "running";
  return state === "running" ? null : html`<${Badge} tone=${tone(state)}>${state}<//> `;
}

export function Queues({ type, title = "Queues" }) {
  useTitle(title);
  const vhost = useValue(chosenVhost);
  const { params } = useValue(route);
  const [isAdding, setAdding] = useState(false);
  const showsWhy = params.sort === "messages_details.rate";
  const columns = [
    { key: "name", label: "Queue", view: (queue) => html`<${QueueLink} vhost=${queue.vhost} name=${queue.name} />${!vhost && html`<span class="sub">${shown(queue.vhost)}</span>`}` },
    { key: "type", label: "Kind", least: true, sort: "type", view: (queue) => html`<${State} of=${queue} /><${Marks} queue=${queue} />` },
    { key: "messages_ready", label: "Ready", end: true, view: (queue) => count(queue.messages_ready) },
    { key: "messages_unacknowledged", label: "Unacked", end: true, view: (queue) => count(queue.messages_unacknowledged) },
    { key: "messages", label: "Total", end: true, view: (queue) => count(queue.messages) },
    { key: "curve", label: "Depth", sort: false, least: true, view: (queue) => html`<${Spark} values=${history(keyOf(queue)).map((point) => point.values.messages ?? 0)} label=${`depth of ${shown(queue.name)}`} />` },
    { key: "messages_details.rate", label: "Growth", end: true, view: (queue) => html`<span class=${growth(queue) > 0 ? "grow" : growth(queue) < 0 ? "shrink" : "muted"}>${signedRate(growth(queue))}</span>` },
    { key: "message_stats.publish_details.rate", label: "In", end: true, view: (queue) => rate(inRate(queue)) },
    { key: "message_stats.deliver_get_details.rate", label: "Out", end: true, view: (queue) => rate(outRate(queue)) },
    { key: "consumers", label: "Consumers", end: true, view: (queue) => count(queue.consumers) },
    showsWhy ? { key: "why", label: "Why", sort: false, class: "why", view: (queue) => whyDeep(queue).slice(0, 1).map(([of, text]) => html`<${Badge} tone=${of}>!<//> ${text}`) }
      : { key: "message_bytes", label: "Bytes", end: true, least: true, view: (queue) => bytes(queue.message_bytes) },
  ].filter((column) => !showsWhy || !["curve", "messages_ready", "messages_unacknowledged"].includes(column.key));
  return html`<${PageHead} title=${title} actions=${html`<button type="button" class="primary" onClick=${() => setAdding(true)}>Add a ${type ?? "queue"}</button>`} />
    <${ServerTable} path=${vhost ? path`/queues/${vhost}` : "/queues"} what=${type ?? "queue"} columns=${columns} keyOf=${keyOf} initial=${{ sort: "name" }} onData=${rememberDepths}
      emptyText="There are no queues yet. Clients declare them, or add one here." />
    ${isAdding && html`<${Dialog} title=${`Add a ${type ?? "queue"}`} wide onClose=${() => setAdding(false)}><${QueueForm} vhost=${vhost} type=${type} onDone=${() => setAdding(false)} /><//>`}`;
}
