import { html, useState, useTitle, useValue } from "../lib/view.js";
import { get } from "../lib/api.js";
import { exchangeName, shown } from "../lib/names.js";
import { href, route, setParams } from "../lib/router.js";
import { usePoll } from "../lib/poll.js";
import { count, moment, text } from "../lib/format.js";
import { Badge, Card, Empty, Field, PageHead, Waiting, attempt } from "../parts/basics.js";

const TONES = { created: "ok", set: "info", deleted: "danger", purged: "danger", cleared: "warn", paused: "warn", resumed: "ok", started: "info", imported: "info", changed: "info" };
const queueOf = (each) => ["queues", each.vhost, each.name];
const LINKS = { queue: queueOf, messages: queueOf, exchange: (each) => ["exchanges", each.vhost, each.name], vhost: (each) => ["vhosts", each.vhost ?? each.name], user: (each) => ["users", each.name] };

const VIA = { amqp: "over AMQP", http: "over HTTP", broker: "by the broker itself", settings: "by the settings" };

/** Who did it, from where; nothing where the broker does not say. */
function Actor({ of }) {
  if (!of) return null;
  const who = of.user ? html`<b>${shown(of.user)}</b> ${VIA[of.via] ?? ""}` : VIA[of.via] ?? "";
  return html`<span class="actor">${who}${of.address && html` <span class="muted">from <a href=${href(["connections"], { filter: of.address })}>${shown(of.address)}</a></span>`}</span>`;
}

function Entry({ of }) {
  const [what, ...verb] = of.event.split(".");
  const word = verb[verb.length - 1] ?? "";
  const { name, vhost, ...details } = of.details;
  const link = name === undefined ? undefined : LINKS[what]?.({ vhost, name });
  const isBinding = what === "binding";
  const rest = Object.entries(details).filter(([key, value]) => value !== "" && value !== null && !(isBinding && ["source", "destination", "destination_type", "routing_key"].includes(key)) && text(value) !== "{}");
  return html`<li><time class="mono" datetime=${new Date(of.at_ms).toISOString()}>${moment(of.at_ms).slice(11)}</time><span><${Badge} tone=${TONES[word] ?? "plain"}>${of.event}<//></span>
    <span>${name !== undefined && !isBinding && (link && (word !== "deleted" || what === "messages") ? html`<a href=${href(link)}>${shown(name) || "(default)"}</a>` : html`<b>${shown(name)}</b>`)}
      ${isBinding && details.source !== undefined && html`<b>${exchangeName(details.source)}</b> → <b>${shown(details.destination)}</b> ${details.routing_key && html`<code>${shown(details.routing_key)}</code>`}`}
      ${vhost !== undefined && html` <span class="muted">in ${shown(vhost)}</span>`}
      <${Actor} of=${of.by} />
      ${rest.length > 0 && html`<span class="sub">${rest.slice(0, 8).map(([key, value]) => `${key.replaceAll("_", " ")}: ${shown(text(value))}`).join(" · ")}</span>`}</span></li>`;
}

const PAGE = 300;

/** What is shown so far, with the newest page in front of it. `before`: asks for older changes; null: there are none. */
function joined({ items, before }, page) {
  const newest = items[0]?.number ?? 0;
  const fresh = page.items.filter((each) => each.number > newest);
  // the first page; or more than a page has come since, and what lies between is not known
  if (fresh.length === page.items.length && page.before !== null) return page;
  return { items: [...fresh, ...items], before };
}

/** The changes that contain a text. */
function Listed({ filter }) {
  const [known, setKnown] = useState({ items: [], before: null });
  const poll = usePoll("/hareline/changes", { every: 10_000, query: { filter, limit: PAGE }, onData: (page) => setKnown((now) => joined(now, page)) });
  const onOlder = () => attempt(async () => {
    const page = await get("/hareline/changes", { filter, limit: PAGE, before: known.before });
    setKnown((now) => (now.before === known.before ? { items: [...now.items, ...page.items], before: page.before } : now));
  });
  const items = poll.data && known.items;
  const days = new Map();
  for (const item of items ?? []) {
    const day = moment(item.at_ms).slice(0, 10);
    days.set(day, [...(days.get(day) ?? []), item]);
  }
  const today = moment(Date.now()).slice(0, 10);
  return html`${!items ? html`<${Waiting} poll=${poll} what="changes" />` : items.length ? html`<${Card}>${[...days].map(([day, entries]) => html`<div key=${day}><h2 class="day">${day === today ? "Today" : day} <span class="muted">${count(entries.length)}</span></h2><ul class="changes">${entries.map((entry) => html`<${Entry} key=${entry.number} of=${entry} />`)}</ul></div>`)}<//>` : html`<${Card}><${Empty} title="Nothing has changed" /><//>`}
    ${items && known.before !== null && html`<div class="actions"><button type="button" onClick=${onOlder}>Show older changes</button></div>`}
    ${poll.data && html`<p class="muted">Kept since ${moment(poll.data.since_ms)}, the last ${count(poll.data.kept_max)} changes at most.</p>`}`;
}

export function Changes() {
  useTitle("What changed today");
  const { params } = useValue(route);
  return html`<${PageHead} title="What changed today" intro="Queues, exchanges and bindings declared and deleted, policies, users, permissions, alarms, settings: newest first, and who did it. What comes and goes with its clients is left out." />
    <${Field} label="Filter"><input type="search" value=${params.filter ?? ""} placeholder="queue.deleted, a name, a user, an address …" onChange=${(event) => setParams({ filter: event.target.value })} /><//>
    <${Listed} key=${params.filter ?? ""} filter=${params.filter} />`;
}
