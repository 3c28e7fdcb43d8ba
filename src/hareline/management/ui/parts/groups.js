// Message groups of a queue: which consumer each one belongs to, and setting them free.
import { html } from "../lib/view.js";
import * as operations from "../lib/operations.js";
import { usePoll } from "../lib/poll.js";
import { count, plural, text } from "../lib/format.js";
import { path, shown } from "../lib/names.js";
import { Card, DocLink, Waiting, attempt, confirm } from "./basics.js";
import { ClientTable } from "./table.js";

const ARGUMENTS = ["x-message-group-type", "messageGroupType", "qpid.shared_msg_group", "x-message-group-key", "qpid.group_header_key", "messageGroupKeyOverride"];

export const hasGroups = (queue) => ARGUMENTS.some((name) => name in (queue.arguments ?? {}));

export function Groups({ vhost, queue }) {
  const poll = usePoll(path`/queues/${vhost}/${queue.name}/groups`);
  async function onReset(groups) {
    const what = groups === null ? "all groups" : `group ${shown(text(groups[0]))}`;
    if (!(await confirm({ title: "Set groups free", text: `Let the next message of ${what} go to any consumer? What the present owner has not acknowledged stays with it, so for these messages the order is not kept.`, action: "Set free" }))) return;
    await attempt(() => operations.resetGroups(vhost, queue.name, groups), (answer) => (answer.reset ? `${plural(answer.reset, "group")} set free.` : "No group had an owner any more."));
    poll.reload();
  }
  const rows = poll.data;
  return html`<${Card} title="Message groups" actions=${rows?.length > 0 && html`<button type="button" class="small danger" onClick=${() => onReset(null)}>Set all free …</button>`}>
    <p class="muted">One consumer at a time handles all messages of a group. A group whose consumer hangs waits for it, until it is set free. <${DocLink} page="message-groups">More about it<//></p>
    ${!rows ? html`<${Waiting} poll=${poll} what="groups" />` : html`<${ClientTable} rows=${rows} what="group" keyOf=${(each) => `${typeof each.group} ${each.group}`} emptyText="No group has an owner or messages that wait" initial=${{ sort: "parked", reverse: true }} columns=${[
      { key: "group", label: "Group", view: (each) => html`<code>${shown(text(each.group)) || "(empty)"}</code>` },
      { key: "owner", label: "Consumer", view: (each) => (each.owner === null ? html`<span class="muted">free</span>` : shown(each.owner)) },
      { key: "outstanding", label: "Unacknowledged", end: true, view: (each) => count(each.outstanding) },
      { key: "parked", label: "Wait for it", end: true, view: (each) => count(each.parked) },
      { key: "do", label: "Change", sort: false, view: (each) => html`<button type="button" class="small danger" disabled=${each.owner === null} onClick=${() => onReset([each.group])}>Set free …</button>` }]} />`}<//>`;
}
