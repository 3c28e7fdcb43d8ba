import { html, useState, useTitle, useValue } from "../lib/view.js";
import { path, shown } from "../lib/names.js";
import { bytes, count, plural, rate } from "../lib/format.js";
import { href } from "../lib/router.js";
import { vhost as chosenVhost } from "../lib/prefs.js";
import { inRate } from "../lib/diagnose.js";
import { Dialog, DocLink, PageHead, QueueLink } from "../parts/basics.js";
import { Lag } from "../parts/readers.js";
import { ServerTable } from "../parts/table.js";
import { QueueForm } from "../parts/queue_form.js";

const keeps = (stream) => [stream.arguments?.["x-max-age"], stream.arguments?.["x-max-length-bytes"] && bytes(stream.arguments["x-max-length-bytes"])].filter(Boolean).join(", ") || "everything";

/** How many readers have told how far they are, and how far the last of them is behind. */
function ReadersOf({ stream }) {
  if (!stream.readers) return html`<span class="muted">none</span>`;
  return html`<a href=${href(["queues", stream.vhost, stream.name], { tab: "readers" })}>${plural(stream.readers, "reader")}</a> <${Lag} of=${stream.reader_lag_max ?? 0} />`;
}

export function Streams() {
  useTitle("Streams");
  const vhost = useValue(chosenVhost);
  const [isAdding, setAdding] = useState(false);
  return html`<${PageHead} title="Streams" intro=${html`A stream keeps what is read. Each reader has a position of its own; how far it is behind the end is its lag. <${DocLink} page="non-destructive-queues">More about streams<//>`} actions=${html`<button type="button" class="primary" onClick=${() => setAdding(true)}>Add a stream</button>`} />
    <${ServerTable} path=${vhost ? path`/queues/${vhost}` : "/queues"} query=${{ type: "stream" }} what="stream" keyOf=${(each) => `${each.vhost} ${each.name}`} initial=${{ sort: "name" }} emptyText="There are no streams yet" columns=${[
      { key: "name", label: "Stream", view: (each) => html`<${QueueLink} vhost=${each.vhost} name=${each.name} />${!vhost && html`<span class="sub">${shown(each.vhost)}</span>`}` },
      { key: "messages", label: "Messages", end: true, view: (each) => count(each.messages) }, { key: "message_bytes", label: "Bytes", sort: false, end: true, view: (each) => bytes(each.message_bytes) },
      { key: "message_stats.publish_details.rate", label: "In", end: true, view: (each) => rate(inRate(each)) }, { key: "consumers", label: "Consumers", end: true, view: (each) => count(each.consumers) },
      { key: "keeps", label: "Keeps", sort: false, least: true, view: keeps },
      { key: "readers", label: "Readers over HTTP", sort: false, view: (each) => html`<${ReadersOf} stream=${each} />` }]} />
    ${isAdding && html`<${Dialog} title="Add a stream" wide onClose=${() => setAdding(false)}><${QueueForm} vhost=${vhost} type="stream" onDone=${() => setAdding(false)} /><//>`}`;
}
