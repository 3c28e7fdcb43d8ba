// What was delivered and is not acknowledged yet: of a queue, a channel or a consumer, with who has
// it and for how long.
import { html, useState } from "../lib/view.js";
import { usePoll } from "../lib/poll.js";
import { duration, plural } from "../lib/format.js";
import { path, shown } from "../lib/names.js";
import { href } from "../lib/router.js";
import { Badge, Card, ChannelLink, DocLink, Empty, Waiting } from "./basics.js";
import { MessageRow } from "./messages.js";

const PAGE = 25;
const SHOWN_BYTES = 16_384; // of each body: it is asked for again and again
/** Who has a message whose consumer the broker does not name. */
export const GONE = "a basic.get, or a consumer that is gone";

/** Who has an unacknowledged message. */
export function Holder({ of }) {
  if (!of) return null;
  return html`<span class="sub">held by ${of.consumer_tag ? html`<b>${shown(of.consumer_tag)}</b>` : GONE}${of.user ? ` of ${shown(of.user)}` : ""}${of.channel && html` on <${ChannelLink} name=${of.channel} />`}</span>`;
}

/** The path in the API of what one consumer holds. `at`: {connection, channel, consumer}. */
export const heldByConsumer = (vhost, at) => path`/consumers/${vhost}/${at.connection}/${at.channel}/${at.consumer}/unacknowledged`;

/** A link to what a consumer of a list holds; the number alone where that is nothing. */
export function HeldLink({ of, children }) {
  const { connection_name: connection, number } = of.channel_details ?? {};
  if (!of.messages_unacknowledged || !connection) return children;
  return html`<a title="Show the messages" href=${href(["queues", of.queue?.vhost, of.queue?.name], { tab: "unacked", connection, channel: number, consumer: of.consumer_tag })}>${children}</a>`;
}

/** A page of unacknowledged messages. `base`: the path in the API. */
export function UnackedMessages({ base, title = "Unacknowledged messages", intro, actions }) {
  const [trail, setTrail] = useState([null]);
  const poll = usePoll(base, { query: { count: PAGE, truncate: SHOWN_BYTES, position: trail[trail.length - 1] } });
  const answer = poll.data;
  const items = answer?.messages ?? [];
  return html`<${Card} title=${title} actions=${actions}><p class="muted">${intro} <${DocLink} page="message-operations#unacknowledged-messages">More about it<//></p>
    ${!answer ? html`<${Waiting} poll=${poll} what="list of messages" />` : !items.length ? html`<${Empty} title=${trail.length > 1 ? "No message is left on this page" : "No message is unacknowledged"} />` : html`<div class="messages" role="list" aria-label="Unacknowledged messages">${items.map((message) => html`<div role="listitem" key=${`${message.held_by.channel} ${message.delivery_tag}`}><${MessageRow} message=${message}
      badge=${message.age_s === null ? null : html`<${Badge} tone=${message.age_s > 300 ? "danger" : message.age_s > 30 ? "warn" : "plain"} title="since it was delivered">${duration(message.age_s * 1000)}<//>`}
      facts=${[["Queue", shown(message.queue)], ["Delivered", message.age_s === null ? undefined : `${duration(message.age_s * 1000)} ago`], ["Delivery tag", message.delivery_tag], ["With", html`<${Holder} of=${message.held_by} />`]]} /></div>`)}</div>`}
    ${answer && (items.length > 0 || trail.length > 1) && html`<nav class="pages" aria-label="Pages of unacknowledged messages"><span>${plural(items.length, "message")} shown, the oldest of each channel first</span><span class="pages-buttons">
      <button type="button" class="small" disabled=${trail.length < 2} onClick=${() => setTrail(trail.slice(0, -1))}>‹ Back</button>
      <button type="button" class="small" disabled=${answer.position === null} onClick=${() => setTrail([...trail, answer.position])}>More ›</button></span></nav>`}
    ${answer?.hidden > 0 && html`<p class="muted">${plural(answer.hidden, "message")} of queues that you may not read, or that are deleted or exclusive, left out.</p>`}<//>`;
}
