import { html, useTitle, useValue } from "../lib/view.js";
import { shown } from "../lib/names.js";
import { href, route, setParams } from "../lib/router.js";
import { usePoll } from "../lib/poll.js";
import { count, moment, text } from "../lib/format.js";
import { Badge, Card, Empty, Field, PageHead, Waiting } from "../parts/basics.js";

const TONES = { created: "ok", set: "info", deleted: "danger", cleared: "warn", closed: "plain", opened: "plain", changed: "info" };
const LINKS = { queue: (each) => ["queues", each.vhost, each.name], exchange: (each) => ["exchanges", each.vhost, each.name], vhost: (each) => ["vhosts", each.name], user: (each) => ["users", each.name] };

function Entry({ of }) {
  const [what, ...verb] = of.event.split(".");
  const word = verb[verb.length - 1] ?? "";
  const link = LINKS[what]?.(of.details.name !== undefined ? { vhost: of.details.vhost, name: of.details.name } : {});
  const rest = Object.entries(of.details).filter(([name, value]) => !["name", "vhost"].includes(name) && value !== "" && value !== null);
  return html`<li><time class="mono" datetime=${new Date(of.at_ms).toISOString()}>${moment(of.at_ms).slice(11)}</time><span><${Badge} tone=${TONES[word] ?? "plain"}>${of.event}<//></span>
    <span>${of.details.name !== undefined && (link && word !== "deleted" ? html`<a href=${href(link)}>${shown(of.details.name) || "(default)"}</a>` : html`<b>${shown(of.details.name)}</b>`)} ${of.details.vhost !== undefined && html`<span class="muted">in ${shown(of.details.vhost)}</span>`} ${of.text && html`<span>${shown(of.text)}</span>`}
      ${rest.length > 0 && html`<span class="sub">${rest.slice(0, 8).map(([name, value]) => `${name}: ${shown(text(value))}`).join(" · ")}</span>`}</span></li>`;
}

export function Changes() {
  useTitle("What changed today");
  const { params } = useValue(route);
  const poll = usePoll("/hareline/changes", { every: 10_000, query: { filter: params.filter, limit: 300 } });
  const items = poll.data?.items;
  const days = new Map();
  for (const item of items ?? []) {
    const day = moment(item.at_ms).slice(0, 10);
    days.set(day, [...(days.get(day) ?? []), item]);
  }
  const today = moment(Date.now()).slice(0, 10);
  return html`<${PageHead} title="What changed today" intro="Queues, exchanges and bindings declared and deleted, policies, users, permissions, alarms, settings: newest first." />
    <${Field} label="Filter"><input type="search" value=${params.filter ?? ""} placeholder="queue.deleted, a name …" onChange=${(event) => setParams({ filter: event.target.value })} /><//>
    ${!items ? html`<${Waiting} poll=${poll} what="changes" />` : items.length ? html`<${Card}>${[...days].map(([day, entries]) => html`<div key=${day}><h2 class="day">${day === today ? "Today" : day} <span class="muted">${count(entries.length)}</span></h2><ul class="changes">${entries.map((entry) => html`<${Entry} key=${entry.number} of=${entry} />`)}</ul></div>`)}<//>` : html`<${Card}><${Empty} title="Nothing has changed" /><//>`}
    ${poll.data && html`<p class="muted">Kept since ${moment(poll.data.since_ms)}, the last ${count(poll.data.kept_max)} changes at most.</p>`}`;
}
