import { html, useTitle, useValue } from "../lib/view.js";
import { shown } from "../lib/names.js";
import { href, route, setParams } from "../lib/router.js";
import { usePoll } from "../lib/poll.js";
import { bytes, count, percent } from "../lib/format.js";
import { vhost as chosenVhost } from "../lib/prefs.js";
import { has } from "../lib/session.js";
import { Badge, Card, Empty, Meter, PageHead, Select, Waiting } from "../parts/basics.js";
import { ClientTable } from "../parts/table.js";

const LINKS = { queue: (each) => href(["queues", each.vhost, each.name], { tab: "settings" }), connection: (each) => href(["connections", each.name]), channel: (each) => href(["channels", each.name]), vhost: (each) => href(["vhosts", each.name]), user: (each) => (has("administrator") ? href(["users", each.name]) : null), broker: () => href(["overview"]) };

function Name({ of }) {
  const to = LINKS[of.kind]?.(of);
  return to ? html`<a href=${to}>${shown(of.name)}</a>` : shown(of.name);
}

export function NearLimits() {
  useTitle("Near a limit");
  const { params } = useValue(route);
  const vhost = useValue(chosenVhost);
  const threshold = params.from ?? "80";
  const poll = usePoll("/hareline/near-limits", { every: 15_000, query: { threshold, vhost } });
  const rows = poll.data?.items;
  const show = (row, value) => (row.unit === "bytes" ? bytes(value) : count(value));
  return html`<${PageHead} title="Near a limit" intro="Queues, connections, channels, users, virtual hosts and the broker itself, and how much of what they may have they use." />
    <div class="actions"><label>From <${Select} label="From which part of the limit" value=${threshold} onChange=${(next) => setParams({ from: next })} options=${[["50", "50 %"], ["80", "80 %"], ["95", "95 %"], ["0", "0 %: every limit"]]} /></label></div>
    ${!rows ? html`<${Waiting} poll=${poll} what="limits" />` : rows.length ? html`<${ClientTable} caption="Near a limit" what="limit" rows=${rows} initial=${{ sort: "part", reverse: true }} keyOf=${(each) => `${each.kind} ${each.vhost} ${each.name} ${each.limit_name}`} columns=${[
      { key: "name", label: "What", view: (each) => html`<${Name} of=${each} /><span class="sub">${each.kind}${each.vhost ? ` in ${shown(each.vhost)}` : ""}</span>` },
      { key: "limit_name", label: "Limit", view: (each) => html`${each.title}<span class="sub mono">${each.limit_name}</span>` },
      { key: "part", label: "Used", view: (each) => html`<b>${percent(each.part)}</b><${Meter} label=${`${each.title} of ${shown(each.name)}`} value=${each.value} limit=${each.limit} />` },
      { key: "value", label: "Now", end: true, view: (each) => show(each, each.value) }, { key: "limit", label: "May be", end: true, view: (each) => show(each, each.limit) },
      { key: "then", label: "At the limit", least: true, view: (each) => each.consequence }]} />` : html`<${Card}><${Empty} title="Nothing is near a limit"><p>Nothing uses ${threshold} % of what it may have.</p><//><//>`}
    ${poll.data?.is_complete === false && html`<p><${Badge} tone="warn">more<//> Only the ${count(rows.length)} that are nearest are listed.</p>`}`;
}
