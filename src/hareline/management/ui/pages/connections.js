import { html, useState, useTitle, useValue } from "../lib/view.js";
import { del } from "../lib/api.js";
import { path, shown } from "../lib/names.js";
import { go, href, route, setParams } from "../lib/router.js";
import { remember, usePoll } from "../lib/poll.js";
import { ago, bytes, count, duration, moment, short, text, toMs } from "../lib/format.js";
import { vhost as chosenVhost } from "../lib/prefs.js";
import { has } from "../lib/session.js";
import { isBlocked, tone, whyBlocked } from "../lib/diagnose.js";
import { Badge, Card, Check, ConnectionLink, Dialog, Empty, Facts, Field, Form, Notice, PageHead, QueueLink, Tabs, Waiting, attempt, tell } from "../parts/basics.js";
import { HistoryChart } from "../parts/chart.js";
import { ClientTable, ServerTable } from "../parts/table.js";
import { CHANNEL_COLUMNS } from "./channels.js";

const bytesRate = (value) => `${bytes(value ?? 0)}/s`;

export const clientOf = (connection) => {
  const properties = connection.client_properties ?? {};
  return [properties.product, properties.version].filter((each) => typeof each === "string").join(" ");
};

const columns = (hasVhost) => [
  { key: "name", label: "Connection", view: (each) => html`<${ConnectionLink} name=${each.name} />${(each.user_provided_name || each.client_properties?.connection_name) && html`<span class="sub">${shown(each.user_provided_name ?? each.client_properties.connection_name)}</span>`}` },
  { key: "peer_host", label: "Address", view: (each) => shown(each.peer_host) },
  { key: "user", label: "User", view: (each) => shown(each.user) },
  ...(hasVhost ? [{ key: "vhost", label: "Virtual host", least: true, view: (each) => shown(each.vhost) }] : []),
  { key: "state", label: "State", view: (each) => html`<${Badge} tone=${tone(each.state)}>${each.state}<//>${each.is_slow ? html` <${Badge} tone="warn" title="does not read fast enough">slow<//>` : ""}` },
  { key: "channels", label: "Channels", end: true, view: (each) => count(each.channels) },
  { key: "recv_oct_details.rate", label: "From client", end: true, view: (each) => bytesRate(each.recv_oct_details?.rate) },
  { key: "send_oct_details.rate", label: "To client", end: true, view: (each) => bytesRate(each.send_oct_details?.rate) },
  { key: "client", label: "Client", sort: false, least: true, view: (each) => shown(clientOf(each)) },
  { key: "connected_at", label: "Since", end: true, least: true, view: (each) => ago(each.connected_at) },
];

export function Connections() {
  useTitle("Connections");
  const vhost = useValue(chosenVhost);
  const { params } = useValue(route);
  const overview = usePoll("/overview", { every: 10_000, query: { columns: "node" } });
  const node = usePoll(overview.data && has("monitoring") ? path`/nodes/${overview.data.node}` : null).data;
  const only = params.only === "blocked";
  return html`<${PageHead} title="Connections" intro=${params.by === "address" ? "Type an address into the filter: names begin with it." : undefined} />
    ${node?.mem_alarm && html`<${Notice} tone="danger" title="Memory alarm">All connections that publish are blocked until consumers have made room.<//>`}
    ${node?.disk_free_alarm && html`<${Notice} tone="danger" title="Disk alarm">All connections that publish are blocked: ${shown(node.disk_free_alarm_reason)}.<//>`}
    <div class="actions"><${Check} label="Only blocked or slowed down" checked=${only} onChange=${(next) => setParams({ only: next ? "blocked" : undefined, page: undefined })} /></div>
    ${only ? html`<${Blocked} vhost=${vhost} node=${node} />`
      : html`<${ServerTable} path=${vhost ? path`/vhosts/${vhost}/connections` : "/connections"} what="connection" columns=${columns(!vhost)} keyOf=${(each) => each.name} filterLabel="Filter by address, port or name" emptyText="No client is connected" />`}`;
}

function Blocked({ vhost, node }) {
  const poll = usePoll(vhost ? path`/vhosts/${vhost}/connections` : "/connections", { query: { page: 1, page_size: 500, pagination: true, sort: "state" } });
  const all = Array.isArray(poll.data) ? poll.data : poll.data?.items;
  if (!all) return html`<${Waiting} poll=${poll} what="connections" />`;
  const rows = all.filter(isBlocked);
  const total = poll.data.total_count ?? all.length;
  if (!rows.length) return html`<${Empty} title="No connection is blocked or slowed down">${node && !node.mem_alarm && !node.disk_free_alarm && html`<p>No resource alarm is on.</p>`}<//>`;
  return html`<${ClientTable} rows=${rows} what="connection" keyOf=${(each) => each.name} columns=${[...columns(!vhost).slice(0, 5), { key: "why", label: "Why", sort: false, class: "why", view: (each) => html`<${Reasons} of=${each} node=${node} />` }]} />
    ${all.length < total && rows.length === all.length && html`<p class="muted">The first ${count(all.length)} of ${count(total)} connections are all blocked or slowed down; there may be more.</p>`}`;
}

/** Why it waits, with the queue that it waits for, and since when. */
export function Reasons({ of, node }) {
  return whyBlocked(of, node).map((each) => html`<div key=${each.text}>${each.text}${each.queue && html` <${QueueLink} vhost=${each.queue.vhost ?? of.vhost} name=${each.queue.name} />`}${each.sinceMs && html` <span class="muted">since ${moment(each.sinceMs).slice(11)} (${ago(each.sinceMs)})</span>`}</div>`);
}

function CloseForm({ name, onClose }) {
  const [reason, setReason] = useState("");
  async function onSubmit() {
    if (await attempt(() => del(path`/connections/${name}`, { headers: reason ? { "X-Reason": reason.replace(/[^\x20-\x7e]/g, "?") } : {} }))) {
      tell("The connection is closed.");
      onClose();
      go(["connections"]);
    }
  }
  return html`<${Dialog} title="Close the connection" onClose=${onClose}><${Form} onSubmit=${onSubmit} submit="Close it"><p>Its unacknowledged messages go back to their queues. Most clients connect again at once.</p>
    <${Field} label="Reason" hint="the client is told"><input autofocus value=${reason} onInput=${(event) => setReason(event.target.value)} /><//><//><//>`;
}

export function ConnectionPage({ name }) {
  useTitle(`Connection ${shown(name)}`);
  const [isClosing, setClosing] = useState(false);
  const of = `connection ${name}`;
  const poll = usePoll(path`/connections/${name}`, { onData: (each) => remember(of, { in: each.recv_oct_details?.rate ?? 0, out: each.send_oct_details?.rate ?? 0 }) });
  const channels = usePoll(path`/connections/${name}/channels`, {});
  const connection = poll.data;
  if (!connection) return html`<${PageHead} kind="Connection" title=${shown(name)} /><${Waiting} poll=${poll} what="connection" />`;
  const rows = Array.isArray(channels.data) ? channels.data : channels.data?.items ?? [];
  return html`<${PageHead} kind="Connection" title=${shown(name)} badges=${html`<${Badge} tone=${tone(connection.state)}>${connection.state}<//>${connection.ssl && html`<${Badge} tone="ok">TLS<//>`}`} actions=${html`<button type="button" class="danger" onClick=${() => setClosing(true)}>Close …</button>`} />
    ${isBlocked(connection) && html`<${Notice} tone="warn" title="It waits."><${Reasons} of=${connection} /><//>`}
    <div class="grid"><${Card}><${HistoryChart} title="Bytes per second" of=${of} format=${bytesRate} lines=${[{ label: "from the client", pick: (values) => values.in }, { label: "to the client", pick: (values) => values.out }]} /><//>
      <${Card} title="Facts"><${Facts} items=${[["User", has("administrator") ? html`<a href=${href(["users", connection.user])}>${shown(connection.user)}</a>` : shown(connection.user)], ["Virtual host", html`<a href=${href(["vhosts", connection.vhost])}>${shown(connection.vhost)}</a>`], ["Address", `${connection.peer_host}:${connection.peer_port}`], ["Name", shown(connection.user_provided_name)], ["Client", shown(clientOf(connection))], ["Connected", `${moment(toMs(connection.connected_at))} (${ago(connection.connected_at)})`], ["Protocol", connection.protocol], ["Login by", connection.auth_mechanism], ["Heartbeat", connection.timeout ? duration(connection.timeout * 1000) : "none"], ["Largest frame", bytes(connection.frame_max)], ["Received", bytes(connection.recv_oct)], ["Sent", bytes(connection.send_oct)], ["Waits to be sent", connection.send_pend ? short(connection.send_pend) : undefined], ["TLS", connection.ssl_protocol && `${connection.ssl_protocol} ${connection.ssl_cipher ?? ""}`], ["Certificate", connection.peer_cert_subject && shown(connection.peer_cert_subject)]]} /><//></div>
    <${Tabs} label="Parts of the connection" tabs=${[
      ["channels", "Channels", () => html`<${ClientTable} rows=${rows} columns=${CHANNEL_COLUMNS} keyOf=${(each) => each.name} what="channel" emptyText="It has no channel open" />`, count(rows.length)],
      ["client", "Client properties", () => html`<${Card} title="What the client says of itself"><${Facts} items=${Object.entries(connection.client_properties ?? {}).map(([key, value]) => [shown(key), shown(text(value))])} /><//>`],
    ]} />
    ${isClosing && html`<${CloseForm} name=${name} onClose=${() => setClosing(false)} />`}`;
}
