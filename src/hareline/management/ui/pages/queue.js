import { html, useEffect, useState, useTitle, useValue } from "../lib/view.js";
import { del, get, post } from "../lib/api.js";
import * as operations from "../lib/operations.js";
import { exchangeName, path, shown } from "../lib/names.js";
import { go, href, route, setParams } from "../lib/router.js";
import { remember, sampled, usePoll, useSeed } from "../lib/poll.js";
import { ago, bytes, count, duration, moment, percent, plural, rate, short, signedRate, text, toMs } from "../lib/format.js";
import { growth, inRate, oldestUnackedMs, outRate, statRate, tone, whyDeep } from "../lib/diagnose.js";
import { Badge, Card, ChannelLink, Check, DocLink, Empty, ExchangeLink, Facts, Field, Form, Meter, Notice, PageHead, Select, Tabs, Tile, Waiting, attempt, confirm, tell } from "../parts/basics.js";
import { HistoryChart } from "../parts/chart.js";
import { ClientTable, Grid } from "../parts/table.js";
import { Groups, hasGroups } from "../parts/groups.js";
import { HeldMessages, heldCount } from "../parts/held.js";
import { GetForm, MessageBrowser } from "../parts/messages.js";
import { NameInput } from "../parts/names.js";
import { PublishForm } from "../parts/publish.js";
import { Readers } from "../parts/readers.js";
import { QueueRoute } from "../parts/route_picture.js";
import { PurgeForm } from "../parts/transfer.js";
import { HeldLink, Holder, UnackedMessages, heldByConsumer } from "../parts/unacked.js";
import { ArgumentsForm, Pairs, tableOf, useDescriptions } from "../parts/arguments.js";
import { Slow } from "./consumers.js";
import { Marks } from "./queues.js";

const RATES = [["publish", "in"], ["deliver_get", "delivered"], ["ack", "acknowledged"], ["redeliver", "redelivered"]];

function Summary({ queue, of }) {
  const stats = queue.message_stats ?? {};
  const why = whyDeep(queue);
  return html`${why.map(([toneOf, sentence]) => html`<${Notice} key=${sentence} tone=${toneOf}>${sentence}<//>`)}
    <div class="tiles"><${Tile} label="Ready" value=${short(queue.messages_ready)} note=${signedRate(queue.messages_ready_details?.rate ?? 0)} /><${Tile} label="Unacknowledged" value=${short(queue.messages_unacknowledged)} note=${signedRate(queue.messages_unacknowledged_details?.rate ?? 0)} />
      <${Tile} label="Growth" value=${signedRate(growth(queue))} tone=${growth(queue) > 0 ? "warn" : ""} /><${Tile} label="In" value=${rate(inRate(queue))} note=${`${short(stats.publish ?? 0)} in all`} /><${Tile} label="Out" value=${rate(outRate(queue))} note=${`${short(stats.deliver_get ?? 0)} in all`} /><${Tile} label="Consumers" value=${count(queue.consumers)} note=${queue.consumers > 0 && typeof queue.consumer_utilisation === "number" ? `ready ${percent(queue.consumer_utilisation)} of the time` : undefined} /></div>
    <div class="grid"><${Card}><${HistoryChart} title="Messages" of=${of} format=${short} lines=${[{ label: "ready", pick: (values) => values.ready }, { label: "unacknowledged", pick: (values) => values.unacked }]} /><//>
      <${Card}><${HistoryChart} title="Messages per second" of=${of} format=${rate} lines=${RATES.map(([name, label]) => ({ label, pick: (values) => values.rates[name] }))} /><//></div>
    <${Card} title="Facts"><${Facts} items=${[["Virtual host", html`<a href=${href(["vhosts", queue.vhost])}>${shown(queue.vhost)}</a>`], ["Type", queue.type], ["Bytes of messages", bytes(queue.message_bytes)], ["of them ready", bytes(queue.message_bytes_ready)], ["Persistent messages", count(queue.messages_persistent)], ["In memory", count(queue.messages_ram)], ["Paged out", count(queue.messages_paged_out)], ["Memory", bytes(queue.memory)],
      ["Held until their time", queue.messages_held ? count(queue.messages_held) : undefined], ["Oldest unacknowledged", oldestUnackedMs(queue) ? html`${duration(oldestUnackedMs(queue))}<${Holder} of=${queue.oldest_unacknowledged_by} />` : undefined], ["Head message from", queue.head_message_timestamp ? `${moment(toMs(queue.head_message_timestamp))}` : undefined], ["Duplicates dropped", queue.duplicates !== undefined ? html`${count(queue.duplicates)}, by ${count(queue.known_ids)} known ids` : undefined], ["Idle since", queue.idle_since && ago(queue.idle_since)], ["Owner", queue.owner_pid_details && shown(queue.owner_pid_details.name)], ["Policy", queue.policy && html`<a href=${href(["policies"])}>${shown(queue.policy)}</a>`], ["Operator policy", queue.operator_policy && shown(queue.operator_policy)], ["Disk reads", queue.disk_reads !== undefined ? count(queue.disk_reads) : undefined], ["Disk writes", queue.disk_writes !== undefined ? count(queue.disk_writes) : undefined]]} /><//>`;
}

const CONSUMER_COLUMNS = [
  { key: "consumer_tag", label: "Consumer", view: (each) => shown(each.consumer_tag) },
  { key: "channel_details.name", label: "Channel", view: (each) => (each.channel_details?.name ? html`<${ChannelLink} name=${each.channel_details.name} />` : "–") },
  { key: "channel_details.user", label: "User", least: true, view: (each) => shown(each.channel_details?.user) },
  { key: "activity_status", label: "State", view: (each) => html`<${Badge} tone=${each.active === false ? "warn" : "ok"}>${each.activity_status ?? (each.active ? "up" : "waiting")}<//><${Slow} of=${each} />` },
  { key: "messages_unacknowledged", label: "Holds", end: true, value: (each) => each.messages_unacknowledged ?? 0, view: (each) => html`<${HeldLink} of=${each}>${count(each.messages_unacknowledged)}<//>` },
  { key: "oldest", label: "Oldest", end: true, value: oldestUnackedMs, view: (each) => (oldestUnackedMs(each) ? duration(oldestUnackedMs(each)) : "–") },
  { key: "prefetch_count", label: "Prefetch", end: true, view: (each) => (each.prefetch_count ? count(each.prefetch_count) : "no limit") },
  { key: "credit", label: "Credit", end: true, least: true, view: (each) => (each.credit === undefined || each.credit === null ? "–" : count(each.credit)) },
  { key: "ack_required", label: "Acks", least: true, view: (each) => (each.ack_required ? "manual" : "automatic") },
  { key: "arguments", label: "Arguments", sort: false, least: true, view: (each) => (Object.keys(each.arguments ?? {}).length ? html`<code>${text(each.arguments)}</code>` : "") },
];

function Consumers({ queue }) {
  return html`<${Card} title="Consumers"><${ClientTable} rows=${queue.consumer_details ?? []} columns=${CONSUMER_COLUMNS} keyOf=${(each) => `${each.channel_details?.name} ${each.consumer_tag}`} what="consumer" emptyText="No consumer takes from this queue" initial=${{ sort: "oldest", reverse: true }} /><//>`;
}

/** All of the queue, or of the consumer that the address names. */
function Unacked({ vhost, name }) {
  const { params } = useValue(route);
  const base = params.consumer === undefined ? path`/queues/${vhost}/${name}/unacknowledged` : heldByConsumer(vhost, params);
  const all = params.consumer !== undefined && html`<button type="button" class="small" onClick=${() => setParams({ connection: undefined, channel: undefined, consumer: undefined })}>Show those of all consumers</button>`;
  return html`<${UnackedMessages} key=${base} base=${base} actions=${all} title=${params.consumer === undefined ? "Unacknowledged messages" : `Unacknowledged messages of ${shown(params.consumer)}`} intro="They were delivered, and are not acknowledged yet." />`;
}

function deadLetterOf(queue) {
  const effective = { ...queue.effective_policy_definition };
  const given = queue.arguments ?? {};
  const exchange = given["x-dead-letter-exchange"] ?? effective["dead-letter-exchange"];
  if (exchange === undefined) return null;
  return { exchange, key: given["x-dead-letter-routing-key"] ?? effective["dead-letter-routing-key"] };
}

function Bindings({ vhost, queue }) {
  const poll = usePoll(path`/queues/${vhost}/${queue.name}/bindings`, { every: 10_000 });
  const bindings = Array.isArray(poll.data) ? poll.data : poll.data?.items;
  const [upstream, setUpstream] = useState([]);
  const sources = JSON.stringify([...new Set((bindings ?? []).map((each) => each.source).filter(Boolean))].slice(0, 12));
  useEffect(() => {
    let isOver = false;
    Promise.all(JSON.parse(sources).map((source) => get(path`/exchanges/${vhost}/${source}/bindings/destination`).catch(() => []))).then((lists) => !isOver && setUpstream(lists.flat()));
    return () => { isOver = true; };
  }, [sources]);
  if (!bindings) return html`<${Waiting} poll=${poll} what="bindings" />`;
  async function onUnbind(binding) {
    if (await confirm({ title: "Remove binding", text: `No longer route from ${exchangeName(binding.source)} with “${shown(binding.routing_key)}”?`, action: "Remove" })
      && await attempt(() => del(path`/bindings/${vhost}/e/${binding.source}/q/${queue.name}/${binding.properties_key}`), "The binding is removed.")) poll.reload();
  }
  return html`<${Card} title="The way to this queue"><${QueueRoute} vhost=${vhost} queue=${queue} bindings=${bindings} upstream=${upstream} deadLetter=${deadLetterOf(queue)} /><//>
    <${Card} title="Bindings"><${ClientTable} rows=${bindings} what="binding" keyOf=${(each) => `${each.source} ${each.properties_key}`} columns=${[
      { key: "source", label: "From exchange", view: (each) => html`<${ExchangeLink} vhost=${vhost} name=${each.source} />` }, { key: "routing_key", label: "Key", view: (each) => html`<code>${shown(each.routing_key)}</code>` },
      { key: "arguments", label: "Arguments", sort: false, view: (each) => (Object.keys(each.arguments ?? {}).length ? html`<code>${text(each.arguments)}</code>` : "") },
      { key: "do", label: "Change", sort: false, view: (each) => (each.source ? html`<button type="button" class="small danger" onClick=${() => onUnbind(each)}>Remove</button>` : "by its name") }]} /><//>
    <${Card} title="Add a binding"><${BindForm} vhost=${vhost} queue=${queue.name} onDone=${poll.reload} /><//>`;
}

export function BindForm({ vhost, queue, source: fixedSource, onDone }) {
  const [end, setEnd] = useState("");
  const [kind, setKind] = useState("q");
  const [key, setKey] = useState("");
  const [pairs, setPairs] = useState([]);
  const [error, setError] = useState("");
  async function onSubmit() {
    setError("");
    try {
      const body = { routing_key: key, arguments: tableOf(pairs) };
      await post(fixedSource === undefined ? path`/bindings/${vhost}/e/${end}/q/${queue}` : path`/bindings/${vhost}/e/${fixedSource}/${kind}/${end}`, body);
      tell("Bound.");
      onDone?.();
    } catch (failure) {
      setError(failure.message);
    }
  }
  return html`<${Form} onSubmit=${onSubmit} submit="Bind" error=${error}><div class="columns">
      ${fixedSource !== undefined && html`<${Field} label="To"><${Select} value=${kind} onChange=${setKind} options=${[["q", "queue"], ["e", "exchange"]]} /><//>`}
      <${Field} label=${fixedSource === undefined ? "From exchange" : "Name"}><${NameInput} key=${kind} kind=${fixedSource === undefined || kind === "e" ? "exchange" : "queue"} vhost=${vhost} required value=${end} onChange=${setEnd} /><//>
      <${Field} label="Routing key"><input value=${key} spellcheck="false" onInput=${(event) => setKey(event.target.value)} /><//></div>
    <${Pairs} label="Arguments" pairs=${pairs} onChange=${setPairs} nameHint="argument" /><//>`;
}

const ORIGINS = {
  queue_argument: ["argument", "given when the queue was declared"],
  operator_change: ["changed while it runs", "set by an operator on this page or over HTTP"],
  policy: ["policy", "set by a policy"],
  operator_policy: ["operator policy", "a limit of the operator"],
  vhost_default: ["default of the virtual host", "nothing says otherwise"],
  default: ["default", "nothing says otherwise"],
};

function Origin({ of, vhost }) {
  const [word, meaning] = ORIGINS[of.origin] ?? [of.origin, ""];
  const isPolicy = of.origin === "policy" || of.origin === "operator_policy";
  return html`<span class="muted" title=${meaning}>${isPolicy ? html`<a href=${href(["policies"], { vhost })}>${word} ${shown(of.origin_name)}</a>` : word}</span>`;
}

/** What is in force and where it comes from, the most telling first. */
function Settings({ vhost, queue, onChanged }) {
  const descriptions = useDescriptions();
  const poll = usePoll(path`/hareline/queues/${vhost}/${queue.name}/effective-arguments`, { every: 15_000 });
  const [hasDefaults, setDefaults] = useState(false);
  const answer = poll.data;
  const describe = (name) => descriptions?.arguments.find((each) => each.name === name);
  const all = answer?.arguments ?? [];
  async function onTake(name) {
    if (await confirm({ title: "Take the argument away", text: `Let ${shown(queue.name)} work without ${name}? It stays so over a restart, until it is set again.`, action: "Take away" })
      && await attempt(() => operations.change(vhost, queue.name, { arguments: { [name]: null } }), "Changed.")) {
      poll.reload();
      onChanged();
    }
  }
  const canGo = (row) => ["queue_argument", "operator_change"].includes(row.origin) && row.value !== null && describe(row.name)?.is_live;
  const isDefault = (row) => row.origin === "default" && !row.overridden?.length;
  const rows = hasDefaults ? all : all.filter((row) => !isDefault(row));
  const policies = [answer?.policy && ["policy", answer.policy], answer?.operator_policy && ["operator policy", answer.operator_policy]].filter(Boolean);
  return html`<${Card} title="What is in force, and what decides it" actions=${all.some(isDefault) && html`<${Check} label="With defaults" checked=${hasDefaults} onChange=${setDefaults} />`}>
      ${!answer ? html`<${Waiting} poll=${poll} what="settings" />` : rows.length ? html`<${Grid} caption="Arguments and policies in force" keyOf=${(row) => row.name} rows=${rows} columns=${[
        { key: "name", label: "Setting", view: (row) => html`<b>${describe(row.name)?.title ?? row.name}</b><span class="sub mono">${row.name}</span>` },
        { key: "value", label: "Value and what decides it", view: (row) => html`<div><${Badge} tone=${row.has_effect === false ? "plain" : "ok"}>${row.has_effect === false ? "without effect" : "in force"}<//> <${Value} of=${row} input=${describe(row.name)?.input} /> <${Origin} of=${row} vhost=${vhost} /> ${canGo(row) && html`<button type="button" class="link" onClick=${() => onTake(row.name)}>take away …</button>`}</div>
          ${(row.overridden ?? []).map((each, place) => html`<div key=${place}><${Badge}>overruled<//> <s><${Value} of=${each} input=${describe(row.name)?.input} /></s> <${Origin} of=${each} vhost=${vhost} />${each.because && html`<span class="sub">${each.because}</span>`}</div>`)}` },
        { key: "about", label: "Meaning", view: (row) => { const about = describe(row.name); return about ? html`${about.summary} <${DocLink} page=${about.page}>more<//>` : "not known to this broker: kept, without effect"; } }]} />`
        : html`<${Empty} title="Plain: no argument, no policy"><p>First in, first out, without any limit.</p><//>`}
      ${policies.map(([kind, policy]) => html`<p key=${kind} class="muted">The ${kind} that fits is <a href=${href(["policies"])}>${shown(policy.name)}</a>: pattern <code>${shown(policy.pattern)}</code>, priority ${policy.priority}.</p>`)}
      <p class="muted">An argument beats a policy. Of numbers that limit, such as lengths and times, the least counts. <${DocLink} page="administration#policies">More about policies<//></p><//>
    <${LiveForm} vhost=${vhost} queue=${queue} descriptions=${descriptions} onChanged=${() => { poll.reload(); onChanged(); }} />`;
}

/** A value as it was given, and as people read it. */
function Value({ of, input }) {
  if (of.value === null || of.value === undefined) return html`<span class="muted">not set</span>`;
  const said = typeof of.value === "number" ? { duration_ms: duration, bytes }[input]?.(of.value) : undefined;
  return html`<code>${shown(text(of.value))}</code>${said && html` <span class="muted">(${said})</span>`}`;
}

function LiveForm({ vhost, queue, descriptions, onChanged }) {
  const rows = (descriptions?.arguments ?? []).filter((each) => each.is_live && each.queue_types.includes(queue.type));
  const [values, setValues] = useState({});
  const [error, setError] = useState("");
  if (!rows.length) return null;
  async function onSubmit() {
    setError("");
    try {
      await operations.change(vhost, queue.name, { arguments: values });
      tell("Changed.");
      setValues({});
      onChanged();
    } catch (failure) {
      setError(failure.message);
    }
  }
  return html`<${Card} title="Change while it runs"><p class="muted">These can change without declaring the queue again; the change stays over a restart.</p>
    <${Form} onSubmit=${onSubmit} submit="Change" error=${error} busy=${Object.keys(values).length === 0 ? "nothing to change" : false}><${ArgumentsForm} all=${rows} groups=${descriptions.groups} values=${values} onChange=${setValues} queueType=${queue.type} /><//><//>`;
}

const earlier = (queue) => sampled(
  { ready: queue.messages_ready_details, unacked: queue.messages_unacknowledged_details },
  Object.fromEntries(RATES.map(([stat]) => [stat, queue.message_stats?.[`${stat}_details`]])),
  ({ ready, unacked, ...rates }) => ({ ready, unacked, rates }),
);

const HOLDS = ["x-hold-on-publish", "holdOnPublishEnabled"];

/** True if messages may be held for a time of their own. */
const holds = (queue) => HOLDS.some((name) => queue.arguments?.[name] === true);

export function QueuePage({ vhost, name }) {
  useTitle(`Queue ${shown(name)}`);
  const { params } = useValue(route);
  const [isPurging, setPurging] = useState(false);
  const of = `queue page ${vhost} ${name}`;
  const poll = usePoll(path`/queues/${vhost}/${name}`, { onData: (queue) => remember(of, { ready: queue.messages_ready ?? 0, unacked: queue.messages_unacknowledged ?? 0, rates: Object.fromEntries(RATES.map(([stat]) => [stat, statRate(queue.message_stats, stat)])) }) });
  const queue = poll.data;
  useSeed(of, path`/queues/${vhost}/${name}`, earlier, poll.reload);
  if (!queue) return html`<${PageHead} kind="Queue" title=${shown(name)} /><${Waiting} poll=${poll} what="queue" />`;
  const isStream = queue.type === "stream";
  const isPaused = Boolean(queue.paused) || queue.state === "paused";
  const limit = queue.arguments?.["x-max-length"] ?? queue.effective_policy_definition?.["max-length"];
  async function onDelete() {
    if (await confirm({ title: "Delete the queue", text: `Delete queue ${shown(name)} with its ${count(queue.messages)} messages and its bindings?`, action: "Delete", phrase: queue.messages > 0 ? name : undefined }) && await attempt(() => del(path`/queues/${vhost}/${name}`), `Queue ${shown(name)} is deleted.`)) go(["queues"]);
  }
  async function onPause() {
    if (await attempt(() => (isPaused ? operations.resume(vhost, name) : operations.pause(vhost, name)), isPaused ? "The queue delivers again." : "Paused: nothing is delivered until you resume it.")) poll.reload();
  }
  const state = isPaused ? "paused" : queue.state ?? "running";
  return html`<${PageHead} kind=${html`Queue in <a href=${href(["vhosts", vhost])}>${shown(vhost)}</a>`} title=${shown(name)} badges=${html`<${Badge} tone=${tone(state)}>${state}<//><${Marks} queue=${queue} />`}
      actions=${html`<button type="button" onClick=${onPause}>${isPaused ? "Resume" : "Pause"}</button>${!isStream && html`<button type="button" class="danger" onClick=${() => setPurging(true)}>Purge …</button>`}<button type="button" class="danger" onClick=${onDelete}>Delete …</button>`} />
    ${poll.error && html`<${Notice} tone="warn">Not up to date: ${poll.error.message}<//>`}
    ${limit > 0 && html`<div><${Meter} label="messages of the limit" value=${queue.messages_ready} limit=${limit} /><span class="sub">${count(queue.messages_ready)} of ${plural(limit, "message")} that it may hold</span></div>`}
    <${Tabs} label="Parts of the queue" tabs=${[
      ["overview", "Overview", () => html`<${Summary} queue=${queue} of=${of} />`],
      ["messages", "Messages", () => html`<${Card} title="Messages"><${MessageBrowser} vhost=${vhost} queue=${queue} onChanged=${poll.reload} /><//>${!isStream && html`<${Card} title="Get"><${GetForm} vhost=${vhost} queue=${queue} onChanged=${poll.reload} /><//>`}`, short(queue.messages)],
      (queue.messages_held > 0 || holds(queue)) && ["held", "Held", () => html`<${HeldMessages} base=${path`/queues/${vhost}/${name}/held`} title="Held messages" intro="They are not valid yet: no consumer gets them before their time." page="time#messages-that-are-not-valid-yet" onChanged=${poll.reload} />`, heldCount(queue)],
      ["publish", "Publish", () => html`<${Card} title="Publish to this queue"><${PublishForm} vhost=${vhost} routingKey=${name} isFixedKey onDone=${poll.reload} /><//>`],
      ["consumers", "Consumers", () => html`<${Consumers} queue=${queue} />`, count(queue.consumers)],
      (queue.messages_unacknowledged > 0 || params.tab === "unacked") && ["unacked", "Unacknowledged", () => html`<${Unacked} vhost=${vhost} name=${name} />`, count(queue.messages_unacknowledged)],
      hasGroups(queue) && ["groups", "Groups", () => html`<${Groups} vhost=${vhost} queue=${queue} />`],
      isStream && ["readers", "Readers", () => html`<${Readers} vhost=${vhost} queue=${queue} />`, queue.readers ? count(queue.readers) : undefined],
      ["bindings", "Bindings", () => html`<${Bindings} vhost=${vhost} queue=${queue} />`],
      ["settings", "Settings", () => html`<${Settings} vhost=${vhost} queue=${queue} onChanged=${poll.reload} />`],
    ]} />
    ${isPurging && html`<${PurgeForm} vhost=${vhost} queue=${queue} onClose=${() => setPurging(false)} onDone=${poll.reload} />`}`;
}
