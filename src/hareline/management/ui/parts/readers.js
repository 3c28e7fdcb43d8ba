// Who reads a stream, how far it has come, and forgetting readers that are gone.
import { html } from "../lib/view.js";
import * as operations from "../lib/operations.js";
import { usePoll } from "../lib/poll.js";
import { count, duration } from "../lib/format.js";
import { path, shown } from "../lib/names.js";
import { Badge, Card, DocLink, Waiting, attempt, confirm } from "./basics.js";
import { ClientTable } from "./table.js";

export const Lag = ({ of }) => html`<${Badge} tone=${of > 0 ? "warn" : "ok"}>${of > 0 ? `${count(of)} behind` : "at the end"}<//>`;

export function Readers({ vhost, queue }) {
  const poll = usePoll(path`/queues/${vhost}/${queue.name}/readers`);
  async function onForget(reader) {
    if (await confirm({ title: "Remove the reader", text: `Forget how far reader ${shown(reader.name)} has come? What only its pin keeps is dropped. If it still runs, it appears again at its next report.`, action: "Remove" })
      && await attempt(() => operations.forgetReader(vhost, queue.name, reader.name), "The reader is forgotten.")) poll.reload();
  }
  return html`<${Card} title="Readers"><p class="muted">Consumers of AMQP, and programs that report over HTTP how far they have come. The lag is how many messages are before the end. <${DocLink} page="stream-readers">More about it<//></p>
    ${!poll.data ? html`<${Waiting} poll=${poll} what="readers" />` : html`<${ClientTable} rows=${poll.data} what="reader" keyOf=${(each) => `${each.kind} ${each.name} ${each.offset}`} emptyText="This stream is not read now" initial=${{ sort: "lag", reverse: true }} columns=${[
      { key: "name", label: "Reader", view: (each) => shown(each.name) },
      { key: "kind", label: "Kind", view: (each) => html`${each.kind === "reader" ? "over HTTP" : each.kind}${each.pin ? html` <${Badge} tone="info" title="The stream keeps what it has not read, within bounds">pin<//>` : ""}` },
      { key: "offset", label: "Next offset", end: true, view: (each) => count(each.offset) },
      { key: "lag", label: "Lag", end: true, view: (each) => html`<${Lag} of=${each.lag} />` },
      { key: "age_s", label: "Last report", end: true, least: true, view: (each) => (each.age_s === undefined ? "–" : `${duration(each.age_s * 1000)} ago`) },
      { key: "do", label: "Change", sort: false, view: (each) => (each.kind === "reader" ? html`<button type="button" class="small danger" onClick=${() => onForget(each)}>Remove …</button>` : html`<span class="muted">leaves by itself</span>`) }]} />`}<//>`;
}
