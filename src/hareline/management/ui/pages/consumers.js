import { html, useTitle, useValue } from "../lib/view.js";
import { path, shown } from "../lib/names.js";
import { route, setParams } from "../lib/router.js";
import { count, duration } from "../lib/format.js";
import { vhost as chosenVhost } from "../lib/prefs.js";
import { oldestUnackedMs } from "../lib/diagnose.js";
import { Badge, ChannelLink, Check, PageHead, QueueLink } from "../parts/basics.js";
import { ServerTable } from "../parts/table.js";
import { HeldLink } from "../parts/unacked.js";

const SLOW = { prefetch: "Its prefetch is used up: it acknowledges too slowly", socket: "Its socket is full: it does not read what was sent" };

/** A mark if messages wait and the consumer can take none. */
export const Slow = ({ of }) => (of.is_slow ? html` <${Badge} tone="warn" title=${SLOW[of.slow_reason] ?? "It cannot take more"}>${of.slow_reason === "prefetch" ? "prefetch full" : of.slow_reason === "socket" ? "reads slowly" : "slow"}<//>` : null);

/** Since when a consumer that holds messages has not acknowledged. */
function Oldest({ of }) {
  const age = oldestUnackedMs(of);
  if (!age) return "–";
  return html`<${Badge} tone=${age > 300_000 ? "danger" : age > 30_000 ? "warn" : "plain"}>${duration(age)}<//>`;
}

export function Consumers() {
  useTitle("Consumers");
  const vhost = useValue(chosenVhost);
  const { params } = useValue(route);
  const isStuck = params.by === "stuck";
  return html`<${PageHead} title="Consumers" intro="A consumer that holds messages for long and takes no more is stuck: its oldest unacknowledged message says since when, the number of those that it holds leads to what they are." />
    <div class="actions"><${Check} label="Longest without an acknowledgement first" checked=${isStuck} onChange=${(next) => setParams({ by: next ? "stuck" : undefined, sort: undefined, reverse: undefined, page: undefined })} /></div>
    <${ServerTable} key=${isStuck ? "stuck" : "all"} path=${vhost ? path`/consumers/${vhost}` : "/consumers"} what="consumer" keyOf=${(each) => `${each.channel_details?.name} ${each.consumer_tag}`} filterLabel="Filter by queue or client"
      initial=${isStuck ? { sort: "oldest_unacknowledged_age_s", reverse: true } : { sort: "queue.name" }} emptyText="There is no consumer" columns=${[
        { key: "queue.name", label: "Consumer of", view: (each) => html`<${QueueLink} vhost=${each.queue?.vhost} name=${each.queue?.name} tab="consumers" /><span class="sub">${shown(each.consumer_tag)}</span>` },
        { key: "channel_details.name", label: "Channel", view: (each) => (each.channel_details?.name ? html`<${ChannelLink} name=${each.channel_details.name} />${each.channel_details.user_provided_name && html`<span class="sub">${shown(each.channel_details.user_provided_name)}</span>`}` : "–") },
        { key: "channel_details.user", label: "User", least: true, view: (each) => shown(each.channel_details?.user) },
        { key: "activity_status", label: "State", view: (each) => html`<${Badge} tone=${each.active === false ? "warn" : "ok"}>${each.activity_status ?? "up"}<//><${Slow} of=${each} />` },
        { key: "messages_unacknowledged", label: "Holds", end: true, view: (each) => html`<${HeldLink} of=${each}>${count(each.messages_unacknowledged)}<//>` },
        { key: "oldest_unacknowledged_age_s", label: "Oldest unacked", end: true, view: (each) => html`<${Oldest} of=${each} />` },
        { key: "prefetch_count", label: "Prefetch", end: true, view: (each) => (each.prefetch_count ? count(each.prefetch_count) : "no limit") },
        { key: "ack_required", label: "Acks", least: true, view: (each) => (each.ack_required ? "manual" : "automatic") }]} />`;
}
