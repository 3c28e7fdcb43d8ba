import { html, useTitle, useValue } from "../lib/view.js";
import * as operations from "../lib/operations.js";
import { exchangeName, shown } from "../lib/names.js";
import { usePoll } from "../lib/poll.js";
import { count, plural } from "../lib/format.js";
import { vhost as chosenVhost } from "../lib/prefs.js";
import { Badge, Card, DocLink, Empty, Notice, PageHead, QueueLink, Waiting, confirm } from "../parts/basics.js";
import { Grid } from "../parts/table.js";
import { operate } from "../parts/work.js";

const MEANS = { rejected: "a consumer refused them", expired: "their time was over", maxlen: "the queue was full", delivery_limit: "they came back too often", replaced: "a newer value took their place" };
const SHOWN_ADDRESSES = 3;

/** Rows of one reason and one queue together, with the addresses they had been published to. */
function grouped(reasons) {
  const groups = new Map();
  for (const { reason, queue, count: number, exchange, routing_key: key } of reasons) {
    const id = `${reason} ${queue}`;
    const group = groups.get(id) ?? { id, reason, queue, count: 0, addresses: [] };
    group.count += number;
    group.addresses.push({ exchange, key, count: number });
    groups.set(id, group);
  }
  return [...groups.values()].sort((a, b) => b.count - a.count);
}

function DeadQueue({ of, onChanged }) {
  const base = operations.queuePath(of.vhost, of.name);
  const isWhole = of.examined >= of.messages;
  async function onRetry(group) {
    const text = group ? `Send ${isWhole ? plural(group.count, "message") : "all messages"} of ${shown(of.name)} that died in ${shown(group.queue)} because ${MEANS[group.reason] ?? group.reason} back there?`
      : `Send the ${count(of.messages)} messages of ${shown(of.name)} back to the queues in which they died?`;
    if (!(await confirm({ title: "Send dead letters back", text: `${text} Mend the cause first, or they come back.`, action: "Send back" }))) return;
    await operate("Send back", base, "retry", group ? { selector: operations.diedIn(group.queue, group.reason) } : { all: true }, "retried");
    onChanged();
  }
  const groups = grouped(of.reasons);
  return html`<${Card} title=${html`<${QueueLink} vhost=${of.vhost} name=${of.name} tab="messages" /> <span class="muted">${plural(of.messages, "message")}</span>`} actions=${html`<button type="button" class="small primary" disabled=${!of.messages} onClick=${() => onRetry(null)}>Send all back …</button>`}>
    ${groups.length ? html`<${Grid} caption=${`Dead letters of ${shown(of.name)} by reason`} rows=${groups} keyOf=${(each) => each.id} columns=${[
      { key: "reason", label: "Reason", view: (each) => html`<${Badge} tone="danger">${each.reason}<//> <span class="muted">${MEANS[each.reason] ?? ""}</span>` },
      { key: "count", label: "Messages", end: true, view: (each) => count(each.count) },
      { key: "queue", label: "Died in", view: (each) => html`<${QueueLink} vhost=${of.vhost} name=${each.queue} />` },
      { key: "addresses", label: "Published to", view: (each) => html`${each.addresses.slice(0, SHOWN_ADDRESSES).map((to) => html`<div key=${`${to.exchange} ${to.key}`}>${exchangeName(to.exchange)} <code>${shown(to.key)}</code></div>`)}${each.addresses.length > SHOWN_ADDRESSES && html`<span class="muted">and ${count(each.addresses.length - SHOWN_ADDRESSES)} more</span>`}` },
      { key: "do", label: "Change", sort: false, view: (each) => html`<button type="button" class="small" onClick=${() => onRetry(each)}>Send back …</button>` }]} />` : html`<p class="muted">${of.messages ? "Its messages did not die: they were published to it." : "It is empty."}</p>`}
    ${!isWhole && html`<p class="muted">${of.examined ? `Counted in the first ${count(of.examined)}; what is sent back is all of it.` : "Not counted: you may not read this queue, or it is one of many."}</p>`}
    ${of.sources.length > 0 && html`<p class="muted">Queues that send their dead letters here: ${of.sources.slice(0, 20).map((source, place) => html`${place ? ", " : ""}<${QueueLink} vhost=${of.vhost} name=${source} tab="settings" />`)}${of.sources.length > 20 && ` and ${count(of.sources.length - 20)} more`}</p>`}
  <//>`;
}

const CARDS_MAX = 50;

export function DeadLetters() {
  useTitle("Dead letters");
  const vhost = useValue(chosenVhost);
  // counting reads up to 500 messages of each queue, so it is done seldom unless one asks
  const poll = usePoll("/hareline/dead-letters", { every: 60_000, query: { vhost } });
  const head = (actions) => html`<${PageHead} title="Dead letters" actions=${actions} intro=${html`Messages that died, by reason and by the queue in which they died. Sent back, they go to where they came from. <${DocLink} page="dead-letters">More about dead letters<//>`} />`;
  if (!poll.data) return html`${head()}<${Waiting} poll=${poll} what="dead letters" />`;
  const rows = poll.data.items;
  const total = poll.data.total ?? rows.length;
  const full = rows.filter((row) => row.messages);
  const cards = [...full, ...rows.filter((row) => !row.messages)].slice(0, CARDS_MAX);
  const totals = new Map();
  for (const reason of rows.flatMap((row) => row.reasons)) totals.set(reason.reason, (totals.get(reason.reason) ?? 0) + reason.count);
  return html`${head(html`<button type="button" onClick=${poll.reload}>Count again</button>`)}
    ${totals.size > 0 && html`<${Notice} tone="warn">${[...totals].sort(([, a], [, b]) => b - a).map(([reason, number], place) => html`${place ? " · " : ""}<b>${count(number)}</b> ${MEANS[reason] ? `died because ${MEANS[reason]}` : reason}`)}<//>`}
    ${rows.length ? cards.map((row) => html`<${DeadQueue} key=${`${row.vhost} ${row.name}`} of=${row} onChanged=${poll.reload} />`) : html`<${Card}><${Empty} title="There are no dead letters"><p>No queue with messages is where a dead-letter exchange leads.</p><//><//>`}
    ${total > cards.length && html`<p class="muted">The ${count(cards.length)} deepest of ${plural(total, "dead-letter queue")} are listed. Choose a virtual host, or open a queue, for the others.</p>`}`;
}
