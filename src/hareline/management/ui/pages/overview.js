import { html, useTitle, useValue } from "../lib/view.js";
import { path, shown } from "../lib/names.js";
import { remember, sampled, usePoll, useSeed } from "../lib/poll.js";
import { bytes, count, duration, plural, rate, short, signedRate } from "../lib/format.js";
import { href } from "../lib/router.js";
import { vhost as chosenVhost } from "../lib/prefs.js";
import { growth } from "../lib/diagnose.js";
import { has } from "../lib/session.js";
import { Badge, Card, Empty, Facts, Meter, Notice, PageHead, QueueLink, Tile, Waiting } from "../parts/basics.js";
import { HistoryChart } from "../parts/chart.js";
import { Grid } from "../parts/table.js";
import { DefaultUsers } from "./users.js";

const RATES = [["publish", "published"], ["deliver_get", "delivered"], ["ack", "acknowledged"], ["confirm", "confirmed"], ["redeliver", "redelivered"]];

const QUESTIONS = [
  ["Which queue grows, and why?", "queues by growth", ["queues"], { sort: "messages_details.rate", reverse: "1" }],
  ["Which consumer is stuck?", "consumers by oldest unacked", ["consumers"], { by: "stuck" }],
  ["Why is this publisher blocked?", "connections by state", ["connections"], { only: "blocked" }],
  ["Where did my message go?", "route tester", ["route-tester"], {}],
  ["What is at the head of a queue?", "deepest queues, then Messages", ["queues"], { sort: "messages", reverse: "1" }],
  ["Who is connected from this address?", "connections by address", ["connections"], { by: "address" }],
  ["Why are these dead? Send them back", "dead letters by reason", ["dead-letters"], {}],
  ["Which policy or argument decides this?", "a queue, then Settings", ["queues"], {}],
  ["What is near a limit?", "limits and how full", ["near-limits"], {}],
  ["What changed today?", "changes, newest first", ["changes"], {}],
];

function note(overview) {
  remember("overview", {
    rates: Object.fromEntries(RATES.map(([name]) => [name, overview.message_stats?.[`${name}_details`]?.rate ?? 0])),
    ready: overview.queue_totals?.messages_ready ?? 0,
    unacked: overview.queue_totals?.messages_unacknowledged ?? 0,
  });
}

const earlier = (overview) => sampled(
  { ready: overview.queue_totals?.messages_ready_details, unacked: overview.queue_totals?.messages_unacknowledged_details },
  Object.fromEntries(RATES.map(([name]) => [name, overview.message_stats?.[`${name}_details`]])),
  ({ ready, unacked, ...rates }) => ({ ready, unacked, rates }),
);

const earlierNode = (node) => sampled({ memory: node.mem_used_details, disk: node.disk_free_details }, {}, (values) => ({ ...values, diskLimit: node.disk_free_limit })).filter((point) => point.values.memory);

function noteNode(node) {
  remember("node", { memory: node.mem_used, memoryLimit: node.mem_limit, disk: node.disk_free, diskLimit: node.disk_free_limit, lag: lagOf(node) });
}

/** How late the event loop is, in ms, or null. */
export const lagOf = (node) => (typeof node.loop_lag_max_us === "number" ? node.loop_lag_max_us / 1000 : null);

function Alarms({ node }) {
  if (!node) return null;
  return html`${node.mem_alarm && html`<${Notice} tone="danger" title="Memory alarm">${bytes(node.mem_used)} of ${bytes(node.mem_limit)} are used. Connections that publish are blocked until consumers have made room. <a href=${href(["connections"], { only: "blocked" })}>Who is blocked?</a><//>`}
    ${node.disk_free_alarm && html`<${Notice} tone="danger" title="Disk alarm">${shown(node.disk_free_alarm_reason)}. Connections that publish are blocked. <a href=${href(["connections"], { only: "blocked" })}>Who is blocked?</a><//>`}`;
}

function Top5({ title, sort, viewOf, label, emptyText }) {
  const vhost = useValue(chosenVhost);
  const poll = usePoll(vhost ? path`/queues/${vhost}` : "/queues", { query: { page: 1, page_size: 5, pagination: true, sort, sort_reverse: true } });
  const rows = (poll.data?.items ?? []).filter((queue) => viewOf.value(queue) > 0);
  return html`<${Card} title=${title} actions=${html`<a href=${href(["queues"], { sort, reverse: "1" })}>all</a>`}>
    ${poll.data === null ? html`<${Waiting} poll=${poll} what="queues" />` : rows.length ? html`<${Grid} caption=${title} keyOf=${(queue) => `${queue.vhost}/${queue.name}`} rows=${rows} columns=${[
      { key: "name", label: "Queue", view: (queue) => html`<${QueueLink} vhost=${queue.vhost} name=${queue.name} />${!vhost && html`<span class="sub">${shown(queue.vhost)}</span>`}` },
      { key: "value", label, end: true, view: viewOf.view },
      { key: "consumers", label: "Consumers", end: true, view: (queue) => count(queue.consumers) },
    ]} />` : html`<${Empty} title=${emptyText} />`}
  <//>`;
}

export function Overview() {
  useTitle("Overview");
  const overviewPoll = usePoll("/overview", { onData: note });
  const overview = overviewPoll.data;
  const nodePoll = usePoll(overview && has("monitoring") ? path`/nodes/${overview.node}` : null, { onData: noteNode });
  const node = nodePoll.data;
  const usersPoll = usePoll(has("administrator") ? "/users" : null, { every: 0, query: { columns: "name,tags,has_default_password,loopback_only" } });
  useSeed("overview", "/overview", earlier, overviewPoll.reload);
  useSeed("node", node ? path`/nodes/${overview.node}` : null, earlierNode, nodePoll.reload);
  if (!overview) return html`<${PageHead} title="Overview" /><${Waiting} poll=${overviewPoll} what="overview" />`;
  const totals = overview.queue_totals ?? {};
  const objects = overview.object_totals ?? {};
  const stats = overview.message_stats ?? {};
  const churn = overview.churn_rates ?? {};
  return html`<${PageHead} title=${overview.cluster_name ?? "Overview"} kind=${`${overview.product_name ?? "Hareline"} ${overview.product_version ?? ""}`}
      badges=${node && html`<${Badge} tone=${node.mem_alarm || node.disk_free_alarm ? "danger" : "ok"}>${node.mem_alarm || node.disk_free_alarm ? "alarm" : "running"}<//>${node.uptime > 0 && html`<${Badge}>up ${duration(node.uptime)}<//>`}`} />
    <${Alarms} node=${node} /><${DefaultUsers} users=${usersPoll.data} />
    <div class="tiles">
      <${Tile} label="Ready" value=${short(totals.messages_ready ?? 0)} note=${signedRate(totals.messages_ready_details?.rate ?? 0)} to=${href(["queues"], { sort: "messages_ready", reverse: "1" })} />
      <${Tile} label="Unacked" value=${short(totals.messages_unacknowledged ?? 0)} note=${signedRate(totals.messages_unacknowledged_details?.rate ?? 0)} to=${href(["consumers"], { by: "stuck" })} />
      <${Tile} label="Published" value=${rate(stats.publish_details?.rate ?? 0)} note=${`${short(stats.publish ?? 0)} in all`} to=${href(["exchanges"])} />
      <${Tile} label="Delivered" value=${rate(stats.deliver_get_details?.rate ?? 0)} note=${`${short(stats.deliver_get ?? 0)} in all`} to=${href(["queues"], { sort: "message_stats.deliver_get_details.rate", reverse: "1" })} />
      <${Tile} label="Queues" value=${count(objects.queues)} note=${plural(objects.exchanges ?? 0, "exchange")} to=${href(["queues"])} />
      <${Tile} label="Connections" value=${count(objects.connections)} note=${plural(objects.channels ?? 0, "channel")} to=${href(["connections"])} />
      <${Tile} label="Consumers" value=${count(objects.consumers)} to=${href(["consumers"])} />
    </div>
    <div class="grid">
      <${Card}><${HistoryChart} title="Messages per second" of="overview" format=${rate} lines=${RATES.map(([name, label]) => ({ label, pick: (values) => values.rates[name] }))} /><//>
      <${Card}><${HistoryChart} title="Messages in queues" of="overview" format=${short} lines=${[{ label: "ready", pick: (values) => values.ready }, { label: "unacknowledged", pick: (values) => values.unacked }]} /><//>
    </div>
    <${Card} title="What do you want to know?"><ul class="questions">${QUESTIONS.map(([question, how, segments, params]) => html`<li key=${question}><a href=${href(segments, params)}>${question}<small>${how}</small></a></li>`)}</ul><//>
    ${node && html`<div class="grid three">
      <${Card}><${HistoryChart} title="Memory" note=${`limit ${bytes(node.mem_limit)}`} of="node" format=${bytes} height=${140} lines=${[{ label: "used", pick: (values) => values.memory }]} /><${Meter} label="memory used" value=${node.mem_used} limit=${node.mem_limit} /><//>
      <${Card}><${HistoryChart} title="Disk" note=${`alarm below ${bytes(node.disk_free_limit)}`} of="node" format=${bytes} height=${140} lines=${[{ label: "free", pick: (values) => values.disk, colour: "--c3" }, { label: "alarm below", pick: (values) => values.diskLimit, colour: "--danger", dash: [5, 4] }]} /><//>
      <${Card}>${lagOf(node) === null ? html`<${Facts} items=${[["File descriptors", `${count(node.fd_used)} of ${count(node.fd_total)}`], ["Sockets", `${count(node.sockets_used)} of ${count(node.sockets_total)}`], ["Process", node.os_pid], ["Processors", node.processors]]} />`
        : html`<${HistoryChart} title="Loop lag" note="how late the broker gets to its work" of="node" format=${duration} least=${5} height=${140} lines=${[{ label: "lag", pick: (values) => values.lag, colour: "--c4" }]} />`}<//>
    </div>`}
    <div class="grid">
      <${Top5} title="Deepest queues" sort="messages" label="Messages" emptyText="All queues are empty" viewOf=${{ value: (queue) => queue.messages ?? 0, view: (queue) => count(queue.messages) }} />
      <${Top5} title="Growing queues" sort="messages_details.rate" label="Growth" emptyText="No queue grows" viewOf=${{ value: growth, view: (queue) => html`<span class="grow">${signedRate(growth(queue))}</span>` }} />
    </div>
    <div class="grid">
      <${Card} title="Churn"><${Facts} items=${[["Connections opened", rate(churn.connection_created_details?.rate ?? 0)], ["Connections closed", rate(churn.connection_closed_details?.rate ?? 0)], ["Channels opened", rate(churn.channel_created_details?.rate ?? 0)], ["Channels closed", rate(churn.channel_closed_details?.rate ?? 0)], ["Queues created", rate(churn.queue_created_details?.rate ?? 0)], ["Queues deleted", rate(churn.queue_deleted_details?.rate ?? 0)]]} /><//>
      <${Card} title="Listeners">${overview.listeners?.length ? html`<${Grid} caption="Listeners" keyOf=${(each) => `${each.protocol} ${each.ip_address} ${each.port}`} rows=${overview.listeners} columns=${[{ key: "protocol", label: "Protocol" }, { key: "ip_address", label: "Address" }, { key: "port", label: "Port", end: true }, { key: "tls", label: "TLS", view: (each) => (each.tls ? "yes" : "no") }]} />` : html`<p class="muted">Your tags do not show the listeners.</p>`}<//>
    </div>`;
}
