import { html, useState, useTitle, useValue } from "../lib/view.js";
import * as operations from "../lib/operations.js";
import { exchangeName, shown } from "../lib/names.js";
import { usePoll } from "../lib/poll.js";
import { count, plural } from "../lib/format.js";
import { vhost as chosenVhost } from "../lib/prefs.js";
import { Badge, Card, Empty, Notice, PageHead, QueueLink, Waiting, attempt, confirm } from "../parts/basics.js";
import { Grid } from "../parts/table.js";

const MEANS = { rejected: "a consumer refused them", expired: "their time was over", maxlen: "the queue was full", delivery_limit: "they came back too often", replaced: "a newer value took their place" };

function DeadQueue({ of, onChanged }) {
  const [isBusy, setBusy] = useState(false);
  async function onRetry() {
    if (!(await confirm({ title: "Send dead letters back", text: `Send the ${count(of.messages)} messages of ${shown(of.name)} back to the queues in which they died? Mend the cause first, or they come back.`, action: "Send back" }))) return;
    setBusy(true);
    await attempt(() => operations.retry(of.vhost, of.name, { all: true }), (answer) => operations.outcome(answer, "retried"));
    setBusy(false);
    onChanged();
  }
  return html`<${Card} title=${html`<${QueueLink} vhost=${of.vhost} name=${of.name} tab="messages" /> <span class="muted">${plural(of.messages, "message")}</span>`} actions=${html`<button type="button" class="small primary" disabled=${isBusy || !of.messages} onClick=${onRetry}>${isBusy ? "Sending …" : "Send back …"}</button>`}>
    ${of.reasons.length ? html`<${Grid} caption=${`Dead letters of ${shown(of.name)} by reason`} rows=${of.reasons} keyOf=${(each) => `${each.reason} ${each.queue} ${each.exchange} ${each.routing_key}`} columns=${[
      { key: "reason", label: "Reason", view: (each) => html`<${Badge} tone="danger">${each.reason}<//> <span class="muted">${MEANS[each.reason] ?? ""}</span>` },
      { key: "count", label: "Messages", end: true, view: (each) => count(each.count) },
      { key: "queue", label: "Died in", view: (each) => html`<${QueueLink} vhost=${of.vhost} name=${each.queue} />` },
      { key: "exchange", label: "Published to", view: (each) => html`${exchangeName(each.exchange)} <code>${shown(each.routing_key)}</code>` }]} />` : html`<p class="muted">${of.messages ? "Its messages did not die: they were published to it." : "It is empty."}</p>`}
    ${of.examined < of.messages && html`<p class="muted">Counted in the first ${count(of.examined)}.</p>`}
    ${of.sources.length > 0 && html`<p class="muted">Queues that send their dead letters here: ${of.sources.map((source, place) => html`${place ? ", " : ""}<${QueueLink} vhost=${of.vhost} name=${source} tab="settings" />`)}</p>`}
  <//>`;
}

export function DeadLetters() {
  useTitle("Dead letters");
  const vhost = useValue(chosenVhost);
  const poll = usePoll("/hareline/dead-letters", { every: 15_000, query: { vhost } });
  if (!poll.data) return html`<${PageHead} title="Dead letters" /><${Waiting} poll=${poll} what="dead letters" />`;
  const rows = poll.data.items;
  const totals = new Map();
  for (const reason of rows.flatMap((row) => row.reasons)) totals.set(reason.reason, (totals.get(reason.reason) ?? 0) + reason.count);
  return html`<${PageHead} title="Dead letters" intro="Messages that died, by reason and by the queue in which they died. Sent back, they go to where they came from." />
    ${totals.size > 0 && html`<${Notice} tone="warn">${[...totals].map(([reason, number], place) => html`${place ? ", " : ""}<b>${count(number)}</b> ${reason}`)}<//>`}
    ${rows.length ? rows.map((row) => html`<${DeadQueue} key=${`${row.vhost} ${row.name}`} of=${row} onChanged=${poll.reload} />`) : html`<${Card}><${Empty} title="There are no dead letters"><p>No queue with messages is where a dead-letter exchange leads.</p><//><//>`}`;
}
