import { html, useTitle, useValue } from "../lib/view.js";
import { path, shown } from "../lib/names.js";
import { usePoll } from "../lib/poll.js";
import { bytes, count, rate } from "../lib/format.js";
import { vhost as chosenVhost } from "../lib/prefs.js";
import { inRate } from "../lib/diagnose.js";
import { Badge, Card, Empty, PageHead, QueueLink, Waiting } from "../parts/basics.js";
import { Grid } from "../parts/table.js";

/** Readers of one stream, and how far behind its end each one is. */
function Readers({ stream }) {
  const poll = usePoll(path`/queues/${stream.vhost}/${stream.name}/readers`, { every: 10_000 });
  if (poll.error) return html`<span class="muted">${poll.error.status === 403 || poll.error.status === 401 ? "no right to read it" : "–"}</span>`;
  const readers = poll.data ?? [];
  if (!readers.length) return html`<span class="muted">none</span>`;
  return html`<ul class="plain">${readers.map((reader) => html`<li key=${`${reader.kind} ${reader.name}`}><b>${shown(reader.name)}</b> <span class="muted">${reader.kind}, at ${count(reader.offset)}</span> <${Badge} tone=${reader.lag > 0 ? "warn" : "ok"}>${reader.lag > 0 ? `${count(reader.lag)} behind` : "at the end"}<//></li>`)}</ul>`;
}

export function Streams() {
  useTitle("Streams");
  const vhost = useValue(chosenVhost);
  const poll = usePoll(vhost ? path`/queues/${vhost}` : "/queues", { query: { page: 1, page_size: 500, pagination: true, sort: "type", sort_reverse: true } });
  const all = Array.isArray(poll.data) ? poll.data : poll.data?.items;
  if (!all) return html`<${PageHead} title="Streams" /><${Waiting} poll=${poll} what="streams" />`;
  const rows = all.filter((each) => each.type === "stream");
  return html`<${PageHead} title="Streams" intro="A stream keeps what is read. Each reader has a position of its own; how far it is behind the end is its lag." />
    ${rows.length ? html`<${Grid} caption="Streams" rows=${rows} keyOf=${(each) => `${each.vhost} ${each.name}`} columns=${[
      { key: "name", label: "Stream", view: (each) => html`<${QueueLink} vhost=${each.vhost} name=${each.name} />${!vhost && html`<span class="sub">${shown(each.vhost)}</span>`}` },
      { key: "messages", label: "Messages", end: true, view: (each) => count(each.messages) }, { key: "message_bytes", label: "Bytes", end: true, view: (each) => bytes(each.message_bytes) },
      { key: "in", label: "In", end: true, view: (each) => rate(inRate(each)) }, { key: "consumers", label: "Consumers", end: true, view: (each) => count(each.consumers) },
      { key: "keeps", label: "Keeps", least: true, view: (each) => [each.arguments?.["x-max-age"], each.arguments?.["x-max-length-bytes"] && bytes(each.arguments["x-max-length-bytes"])].filter(Boolean).join(", ") || "everything" },
      { key: "readers", label: "Readers", view: (each) => html`<${Readers} stream=${each} />` }]} />` : html`<${Card}><${Empty} title="There are no streams"><p>Declare a queue with x-queue-type = stream.</p><//><//>`}`;
}
