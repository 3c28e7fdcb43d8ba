import { html, useState, useTitle } from "../lib/view.js";
import { del, put } from "../lib/api.js";
import { path, shown } from "../lib/names.js";
import { go, href } from "../lib/router.js";
import { remember, usePoll } from "../lib/poll.js";
import { count, rate, short } from "../lib/format.js";
import { vhost as chosenVhost } from "../lib/prefs.js";
import { has } from "../lib/session.js";
import { statRate } from "../lib/diagnose.js";
import { Badge, Card, Check, Dialog, Facts, Field, Form, PageHead, Select, Tile, Waiting, attempt, confirm, tell } from "../parts/basics.js";
import { HistoryChart } from "../parts/chart.js";
import { ClientTable } from "../parts/table.js";

export const rowsOf = (data) => (Array.isArray(data) ? data : data?.items ?? []);

export function VirtualHosts() {
  useTitle("Virtual hosts");
  const poll = usePoll("/vhosts");
  const [isAdding, setAdding] = useState(false);
  return html`<${PageHead} title="Virtual hosts" actions=${has("administrator") && html`<button type="button" class="primary" onClick=${() => setAdding(true)}>Add a virtual host</button>`} />
    ${!poll.data ? html`<${Waiting} poll=${poll} what="virtual hosts" />` : html`<${ClientTable} rows=${rowsOf(poll.data)} what="virtual host" keyOf=${(each) => each.name} columns=${[
      { key: "name", label: "Virtual host", view: (each) => html`<a href=${href(["vhosts", each.name])}>${shown(each.name)}</a>${each.description && html`<span class="sub">${shown(each.description)}</span>`}` },
      { key: "messages_ready", label: "Ready", end: true, view: (each) => count(each.messages_ready) }, { key: "messages_unacknowledged", label: "Unacked", end: true, view: (each) => count(each.messages_unacknowledged) }, { key: "messages", label: "Total", end: true, view: (each) => count(each.messages) },
      { key: "message_stats.publish_details.rate", label: "In", end: true, view: (each) => rate(statRate(each.message_stats, "publish")) }, { key: "message_stats.deliver_get_details.rate", label: "Out", end: true, view: (each) => rate(statRate(each.message_stats, "deliver_get")) },
      { key: "tags", label: "Marks", sort: false, least: true, view: (each) => html`${(each.tags ?? []).map((tag) => html`<${Badge} key=${tag}>${shown(tag)}<//> `)}${each.tracing && html`<${Badge} tone="warn">tracing<//>`}` }]} />`}
    ${isAdding && html`<${Dialog} title="Add a virtual host" onClose=${() => setAdding(false)}><${VhostForm} onDone=${() => { setAdding(false); poll.reload(); }} /><//>`}`;
}

function VhostForm({ of, onDone }) {
  const [name, setName] = useState(of?.name ?? "");
  const [description, setDescription] = useState(of?.description ?? "");
  const [tags, setTags] = useState((of?.tags ?? []).join(", "));
  const [queueType, setQueueType] = useState(of?.default_queue_type && of.default_queue_type !== "undefined" ? of.default_queue_type : "classic");
  const [isTracing, setTracing] = useState(Boolean(of?.tracing));
  const [isProtected, setProtected] = useState(Boolean(of?.protected_from_deletion));
  const [error, setError] = useState("");
  async function onSubmit() {
    setError("");
    try {
      await put(path`/vhosts/${name}`, { description, tags: tags.split(",").map((tag) => tag.trim()).filter(Boolean).join(","), default_queue_type: queueType, tracing: isTracing, protected_from_deletion: isProtected });
      tell(`Virtual host ${shown(name)} is set.`);
      onDone();
    } catch (failure) {
      setError(failure.message);
    }
  }
  return html`<${Form} onSubmit=${onSubmit} submit=${of ? "Save" : "Add"} error=${error}>${!of && html`<${Field} label="Name"><input required autofocus value=${name} spellcheck="false" onInput=${(event) => setName(event.target.value)} /><//>`}
    <${Field} label="Description"><input value=${description} onInput=${(event) => setDescription(event.target.value)} /><//><${Field} label="Tags" hint="with commas between them"><input value=${tags} onInput=${(event) => setTags(event.target.value)} /><//>
    <${Field} label="Default queue type"><${Select} value=${queueType} onChange=${setQueueType} options=${["classic", "quorum", "stream"]} /><//>
    <${Check} label="Tracing" hint="copies every message to the exchange amq.rabbitmq.trace: this costs speed" checked=${isTracing} onChange=${setTracing} />
    <${Check} label="Protected" hint="it cannot be deleted until this is taken away" checked=${isProtected} onChange=${setProtected} /><//>`;
}

/** `base`: the path of the limits; `limits`: [name, label]. */
export function Limits({ title, base, limits }) {
  const poll = usePoll(base, { every: 15_000 });
  const value = rowsOf(poll.data)[0]?.value ?? {};
  const [given, setGiven] = useState({});
  async function save(name) {
    const written = given[name] ?? "";
    const isOff = written === "";
    if (await attempt(() => (isOff ? del(`${base}/${name}`) : put(`${base}/${name}`, { value: Number(written) })), isOff ? "There is no limit any more." : "The limit is set.")) {
      setGiven({});
      poll.reload();
    }
  }
  return html`<${Card} title=${title}>${limits.map(([name, label]) => html`<form key=${name} class="inline-form" onSubmit=${(event) => { event.preventDefault(); save(name); }}>
    <${Field} label=${label} hint="empty: no limit"><input type="number" min="-1" value=${given[name] ?? value[name] ?? ""} onInput=${(event) => setGiven({ ...given, [name]: event.target.value })} /><//><button type="submit" disabled=${given[name] === undefined || given[name] === String(value[name] ?? "")}>Set</button></form>`)}<//>`;
}

export function VirtualHostPage({ name }) {
  useTitle(`Virtual host ${shown(name)}`);
  const of = `vhost ${name}`;
  const [isEditing, setEditing] = useState(false);
  const poll = usePoll(path`/vhosts/${name}`, { onData: (each) => remember(of, { ready: each.messages_ready ?? 0, unacked: each.messages_unacknowledged ?? 0, in: statRate(each.message_stats, "publish"), out: statRate(each.message_stats, "deliver_get") }) });
  const permissions = usePoll(has("administrator") ? path`/vhosts/${name}/permissions` : null, { every: 15_000 });
  const vhost = poll.data;
  if (!vhost) return html`<${PageHead} kind="Virtual host" title=${shown(name)} /><${Waiting} poll=${poll} what="virtual host" />`;
  async function onDelete() {
    if (await confirm({ title: "Delete the virtual host", text: `Delete virtual host ${shown(name)} with all its queues, messages, exchanges and permissions?`, action: "Delete", phrase: name }) && await attempt(() => del(path`/vhosts/${name}`), `Virtual host ${shown(name)} is deleted.`)) go(["vhosts"]);
  }
  const fixedBy = vhost.set_by === "settings" ? "The settings file names it: take it out there" : vhost.protected_from_deletion ? "It is protected from deletion: edit it first" : "";
  const show = (page) => { chosenVhost.set(name); go([page]); };
  return html`<${PageHead} kind="Virtual host" title=${shown(name)} badges=${html`${(vhost.tags ?? []).map((tag) => html`<${Badge} key=${tag}>${shown(tag)}<//>`)}${vhost.tracing && html`<${Badge} tone="warn">tracing<//>`}${vhost.protected_from_deletion && html`<${Badge} tone="info">protected<//>`}`} intro=${vhost.description && shown(vhost.description)}
      actions=${html`<button type="button" onClick=${() => show("queues")}>Its queues</button><button type="button" onClick=${() => show("connections")}>Its connections</button>${has("administrator") && html`<button type="button" onClick=${() => setEditing(true)}>Edit …</button><button type="button" class="danger" onClick=${onDelete} disabled=${Boolean(fixedBy)} title=${fixedBy}>Delete …</button>`}`} />
    <div class="tiles"><${Tile} label="Ready" value=${short(vhost.messages_ready ?? 0)} /><${Tile} label="Unacknowledged" value=${short(vhost.messages_unacknowledged ?? 0)} /><${Tile} label="In" value=${rate(statRate(vhost.message_stats, "publish"))} /><${Tile} label="Out" value=${rate(statRate(vhost.message_stats, "deliver_get"))} /></div>
    <div class="grid"><${Card}><${HistoryChart} title="Messages" of=${of} format=${short} lines=${[{ label: "ready", pick: (values) => values.ready }, { label: "unacknowledged", pick: (values) => values.unacked }]} /><//><${Card}><${HistoryChart} title="Messages per second" of=${of} format=${rate} lines=${[{ label: "in", pick: (values) => values.in }, { label: "out", pick: (values) => values.out }]} /><//></div>
    <div class="grid">${permissions.data && html`<${Card} title="Who may do what"><${ClientTable} rows=${rowsOf(permissions.data)} what="permission" keyOf=${(each) => each.user} emptyText="No user may enter" columns=${[{ key: "user", label: "User", view: (each) => html`<a href=${href(["users", each.user])}>${shown(each.user)}</a>` }, ...["configure", "write", "read"].map((right) => ({ key: right, label: right, view: (each) => html`<code>${shown(each[right]) || "(nothing)"}</code>` }))]} /><//>`}
      ${has("administrator") && html`<${Limits} title="Limits" base=${path`/vhost-limits/${name}`} limits=${[["max-connections", "Most connections"], ["max-queues", "Most queues"]]} />`}<${Card} title="Facts"><${Facts} items=${[["Default queue type", vhost.default_queue_type], ["Tracing", vhost.tracing ? "on" : "off"], ["Set by", vhost.set_by === "settings" ? "the settings file" : "an operator"]]} /><//></div>
    ${isEditing && html`<${Dialog} title="Edit the virtual host" onClose=${() => setEditing(false)}><${VhostForm} of=${vhost} onDone=${() => { setEditing(false); poll.reload(); }} /><//>`}`;
}
