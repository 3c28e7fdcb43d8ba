import { html, useTitle, useValue } from "../lib/view.js";
import { path, shown } from "../lib/names.js";
import { remember, usePoll } from "../lib/poll.js";
import { ago, count, duration, rate } from "../lib/format.js";
import { vhost as chosenVhost } from "../lib/prefs.js";
import { isBlocked, oldestUnackedMs, statRate, tone, whyBlocked } from "../lib/diagnose.js";
import { Badge, Card, ChannelLink, ConnectionLink, Facts, Notice, PageHead, QueueLink, Tile, Waiting } from "../parts/basics.js";
import { HistoryChart } from "../parts/chart.js";
import { ClientTable, ServerTable } from "../parts/table.js";
import { UnackedMessages } from "../parts/unacked.js";
import { Slow } from "./consumers.js";

export const CHANNEL_COLUMNS = [
  { key: "name", label: "Channel", view: (each) => html`<${ChannelLink} name=${each.name} />` },
  { key: "user", label: "User", least: true, view: (each) => shown(each.user) },
  { key: "state", label: "State", view: (each) => html`<${Badge} tone=${tone(each.state)}>${each.state}<//>` },
  { key: "confirm", label: "Mode", sort: false, least: true, view: (each) => (each.transactional ? html`<${Badge}>transactions<//>` : each.confirm ? html`<${Badge}>confirms<//>` : "–") },
  { key: "consumer_count", label: "Consumers", end: true, view: (each) => count(each.consumer_count) },
  { key: "messages_unacknowledged", label: "Unacked", end: true, view: (each) => count(each.messages_unacknowledged) },
  { key: "messages_unconfirmed", label: "Unconfirmed", end: true, least: true, view: (each) => count(each.messages_unconfirmed) },
  { key: "prefetch_count", label: "Prefetch", end: true, view: (each) => (each.prefetch_count ? count(each.prefetch_count) : "–") },
  { key: "message_stats.publish_details.rate", label: "Publishes", end: true, view: (each) => rate(statRate(each.message_stats, "publish")) },
  { key: "message_stats.deliver_get_details.rate", label: "Gets", end: true, view: (each) => rate(statRate(each.message_stats, "deliver_get")) },
  { key: "message_stats.ack_details.rate", label: "Acks", end: true, least: true, view: (each) => rate(statRate(each.message_stats, "ack")) },
];

export function Channels() {
  useTitle("Channels");
  const vhost = useValue(chosenVhost);
  return html`<${PageHead} title="Channels" />
    <${ServerTable} path=${vhost ? path`/vhosts/${vhost}/channels` : "/channels"} what="channel" columns=${CHANNEL_COLUMNS} keyOf=${(each) => each.name} filterLabel="Filter by address, port or number" emptyText="No channel is open" />`;
}

export function ChannelPage({ name }) {
  useTitle(`Channel ${shown(name)}`);
  const of = `channel ${name}`;
  const poll = usePoll(path`/channels/${name}`, { onData: (each) => remember(of, { publish: statRate(each.message_stats, "publish"), deliver: statRate(each.message_stats, "deliver_get"), ack: statRate(each.message_stats, "ack"), unacked: each.messages_unacknowledged ?? 0, unconfirmed: each.messages_unconfirmed ?? 0 }) });
  const channel = poll.data;
  if (!channel) return html`<${PageHead} kind="Channel" title=${shown(name)} /><${Waiting} poll=${poll} what="channel" />`;
  const consumers = channel.consumer_details ?? [];
  const oldest = consumers.reduce((most, each) => Math.max(most, oldestUnackedMs(each)), 0);
  return html`<${PageHead} kind=${html`Channel of <${ConnectionLink} name=${channel.connection_details?.name ?? ""} />`} title=${shown(name)} badges=${html`<${Badge} tone=${tone(channel.state)}>${channel.state}<//>${channel.confirm && html`<${Badge}>confirms<//>`}${channel.transactional && html`<${Badge}>transactions<//>`}`} />
    ${isBlocked(channel) && html`<${Notice} tone="warn" title="It waits.">${whyBlocked(channel).map((each) => html`<div key=${each.text}>${each.text}${each.queue && html` <${QueueLink} vhost=${each.queue.vhost ?? channel.vhost} name=${each.queue.name} />`}</div>`)}<//>`}
    <div class="tiles"><${Tile} label="Unacknowledged" value=${count(channel.messages_unacknowledged)} note=${oldest ? `oldest ${duration(oldest)}` : undefined} /><${Tile} label="Unconfirmed" value=${count(channel.messages_unconfirmed)} /><${Tile} label="Uncommitted" value=${count(channel.messages_uncommitted)} /><${Tile} label="Prefetch" value=${channel.prefetch_count ? count(channel.prefetch_count) : "–"} note=${channel.global_prefetch_count ? `${count(channel.global_prefetch_count)} for the channel` : undefined} /><${Tile} label="Consumers" value=${count(channel.consumer_count)} /></div>
    <div class="grid"><${Card}><${HistoryChart} title="Messages per second" of=${of} format=${rate} lines=${[{ label: "published", pick: (values) => values.publish }, { label: "delivered", pick: (values) => values.deliver }, { label: "acknowledged", pick: (values) => values.ack }]} /><//>
      <${Card}><${HistoryChart} title="Waiting" of=${of} format=${count} lines=${[{ label: "unacknowledged", pick: (values) => values.unacked }, { label: "unconfirmed", pick: (values) => values.unconfirmed }]} /><//></div>
    <${Card} title="Consumers"><${ClientTable} rows=${consumers} what="consumer" keyOf=${(each) => each.consumer_tag} emptyText="It consumes from no queue" columns=${[
      { key: "consumer_tag", label: "Consumer", view: (each) => html`${shown(each.consumer_tag)}<${Slow} of=${each} />` }, { key: "queue.name", label: "Queue", view: (each) => html`<${QueueLink} vhost=${each.queue.vhost} name=${each.queue.name} />` },
      { key: "prefetch_count", label: "Prefetch", end: true }, { key: "ack_required", label: "Acks", view: (each) => (each.ack_required ? "manual" : "automatic") }]} /><//>
    ${channel.messages_unacknowledged > 0 && html`<${UnackedMessages} base=${path`/channels/${name}/unacknowledged`} intro="They were delivered on this channel, and are not acknowledged yet." />`}
    <${Card} title="Facts"><${Facts} items=${[["User", shown(channel.user)], ["Virtual host", shown(channel.vhost)], ["Number", channel.number], ["Idle since", channel.idle_since && ago(channel.idle_since)]]} /><//>`;
}
