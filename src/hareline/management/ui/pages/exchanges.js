import { html, useState, useTitle, useValue } from "../lib/view.js";
import { del, put } from "../lib/api.js";
import { exchangeName, path, shown } from "../lib/names.js";
import { go, href } from "../lib/router.js";
import { remember, usePoll } from "../lib/poll.js";
import { count, rate, short, text } from "../lib/format.js";
import { vhost as chosenVhost } from "../lib/prefs.js";
import { statRate } from "../lib/diagnose.js";
import { Badge, Card, Check, Dialog, ExchangeLink, Facts, Field, Form, PageHead, QueueLink, Select, Tabs, Tile, Waiting, attempt, confirm, tell } from "../parts/basics.js";
import { HistoryChart } from "../parts/chart.js";
import { ClientTable, ServerTable } from "../parts/table.js";
import { HeldMessages } from "../parts/held.js";
import { NameInput } from "../parts/names.js";
import { ExchangeRoute } from "../parts/route_picture.js";
import { PublishForm } from "../parts/publish.js";
import { Pairs, tableOf } from "../parts/arguments.js";
import { VhostField } from "../parts/queue_form.js";
import { BindForm } from "./queue.js";
import { TesterForm } from "./route_tester.js";

const TYPES = [
  ["direct", "direct: the key equals the binding key"], ["topic", "topic: patterns with * and #"], ["fanout", "fanout: to all bindings"], ["headers", "headers: by header values"],
  ["x-consistent-hash", "x-consistent-hash: equal keys to one queue"], ["x-random", "x-random: to one binding by chance"], ["x-local-random", "x-local-random: to one classic queue by chance"], ["x-delayed-message", "x-delayed-message: after x-delay"], ["x-jms-topic", "x-jms-topic: by selectors of JMS clients"],
];

const Marks = ({ exchange }) => html`${exchange.durable && html`<${Badge} title="survives a restart">durable<//> `}${exchange.auto_delete && html`<${Badge}>auto-delete<//> `}${exchange.internal && html`<${Badge} tone="warn" title="clients cannot publish to it">internal<//> `}
  ${exchange.arguments?.["alternate-exchange"] && html`<${Badge} title=${`alternate exchange ${exchange.arguments["alternate-exchange"]}`}>alternate<//> `}${exchange.policy && html`<${Badge} tone="info">policy<//>`}`;

const linkName = (exchange) => html`<a href=${href(["exchanges", exchange.vhost, exchange.name])}>${exchangeName(exchange.name)}</a>`;

export function Exchanges() {
  useTitle("Exchanges");
  const vhost = useValue(chosenVhost);
  const [isAdding, setAdding] = useState(false);
  return html`<${PageHead} title="Exchanges" actions=${html`<a class="button" href=${href(["route-tester"])}>Test a route</a><button type="button" class="primary" onClick=${() => setAdding(true)}>Add an exchange</button>`} />
    <${ServerTable} path=${vhost ? path`/exchanges/${vhost}` : "/exchanges"} what="exchange" keyOf=${(each) => `${each.vhost} ${each.name}`} columns=${[
      { key: "name", label: "Exchange", view: (each) => html`${linkName(each)}${!vhost && html`<span class="sub">${shown(each.vhost)}</span>`}` },
      { key: "type", label: "Type" }, { key: "durable", label: "Kind", sort: false, least: true, view: (each) => html`<${Marks} exchange=${each} />` },
      { key: "message_stats.publish_in_details.rate", label: "In", end: true, view: (each) => rate(statRate(each.message_stats, "publish_in")) },
      { key: "message_stats.publish_out_details.rate", label: "Out", end: true, view: (each) => rate(statRate(each.message_stats, "publish_out")) },
      { key: "message_stats.publish_in", label: "In all", end: true, least: true, view: (each) => short(each.message_stats?.publish_in ?? 0) }]} />
    ${isAdding && html`<${Dialog} title="Add an exchange" onClose=${() => setAdding(false)}><${ExchangeForm} vhost=${vhost} onDone=${() => setAdding(false)} /><//>`}`;
}

function ExchangeForm({ vhost, onDone }) {
  const [place, setPlace] = useState(vhost || "/");
  const [name, setName] = useState("");
  const [type, setType] = useState("direct");
  const [isDurable, setDurable] = useState(true);
  const [isAutoDelete, setAutoDelete] = useState(false);
  const [isInternal, setInternal] = useState(false);
  const [alternate, setAlternate] = useState("");
  const [delayedType, setDelayedType] = useState("direct");
  const [hash, setHash] = useState("");
  const [pairs, setPairs] = useState([]);
  const [error, setError] = useState("");
  async function onSubmit() {
    setError("");
    try {
      const given = tableOf(pairs);
      if (alternate) given["alternate-exchange"] = alternate;
      if (type === "x-delayed-message") given["x-delayed-type"] = delayedType;
      if (type === "x-consistent-hash" && hash) given["hash-header"] = hash;
      await put(path`/exchanges/${place}/${name}`, { type, durable: isDurable, auto_delete: isAutoDelete, internal: isInternal, arguments: given });
      tell(`Exchange ${shown(name)} is there.`);
      onDone();
      go(["exchanges", place, name]);
    } catch (failure) {
      setError(failure.message);
    }
  }
  return html`<${Form} onSubmit=${onSubmit} submit="Declare" error=${error}>
    <div class="columns"><${Field} label="Name"><input required autofocus spellcheck="false" value=${name} onInput=${(event) => setName(event.target.value)} /><//><${VhostField} value=${place} onChange=${setPlace} /></div>
    <${Field} label="Type"><${Select} value=${type} onChange=${setType} options=${TYPES} /><//>
    ${type === "x-delayed-message" && html`<${Field} label="Routes as"><${Select} value=${delayedType} onChange=${setDelayedType} options=${TYPES.filter(([id]) => id !== type)} /><//>`}
    ${type === "x-consistent-hash" && html`<${Field} label="Hash the header" hint="empty: the routing key"><input value=${hash} onInput=${(event) => setHash(event.target.value)} /><//>`}
    <div class="columns"><${Check} label="Durable" checked=${isDurable} onChange=${setDurable} /><${Check} label="Auto-delete" hint="goes with its last binding" checked=${isAutoDelete} onChange=${setAutoDelete} /><${Check} label="Internal" hint="only exchanges send to it" checked=${isInternal} onChange=${setInternal} /></div>
    <${Field} label="Alternate exchange" hint="gets what no binding takes"><${NameInput} kind="exchange" vhost=${place} value=${alternate} onChange=${setAlternate} /><//>
    <${Pairs} label="Other arguments" pairs=${pairs} onChange=${setPairs} nameHint="argument" /><//>`;
}

const FIRST = { page: 1, page_size: 100, pagination: true };

export function ExchangePage({ vhost, name }) {
  useTitle(`Exchange ${exchangeName(name)}`);
  const apiName = name || "amq.default";
  const of = `exchange ${vhost} ${name}`;
  const poll = usePoll(path`/exchanges/${vhost}/${apiName}`, { onData: (exchange) => remember(of, { in: statRate(exchange.message_stats, "publish_in"), out: statRate(exchange.message_stats, "publish_out") }) });
  // the first ones are for the picture; the list below asks for its pages itself
  const outgoing = usePoll(path`/exchanges/${vhost}/${apiName}/bindings/source`, { every: 10_000, query: FIRST });
  const incoming = usePoll(path`/exchanges/${vhost}/${apiName}/bindings/destination`, { every: 10_000, query: FIRST });
  const [round, setRound] = useState(0);
  const reload = () => {
    outgoing.reload();
    setRound((number) => number + 1);
  };
  const exchange = poll.data;
  if (!exchange) return html`<${PageHead} kind="Exchange" title=${exchangeName(name)} /><${Waiting} poll=${poll} what="exchange" />`;
  const isOurs = name === "" || name.startsWith("amq.");
  const rows = outgoing.data?.items ?? [];
  const sources = incoming.data?.items ?? [];
  const bindingCount = outgoing.data?.total_count ?? rows.length;
  const isDelayed = exchange.type === "x-delayed-message";
  async function onDelete() {
    if (await confirm({ title: "Delete the exchange", text: `Delete exchange ${shown(name)} and its ${count(bindingCount)} bindings?`, action: "Delete", phrase: bindingCount ? name : undefined }) && await attempt(() => del(path`/exchanges/${vhost}/${name}`), `Exchange ${shown(name)} is deleted.`)) go(["exchanges"]);
  }
  async function onUnbind(binding) {
    const kind = binding.destination_type === "queue" ? "q" : "e";
    if (await confirm({ title: "Remove binding", text: `No longer route to ${shown(binding.destination)} with “${shown(binding.routing_key)}”?`, action: "Remove" })
      && await attempt(() => del(path`/bindings/${vhost}/e/${name}/` + kind + path`/${binding.destination}/${binding.properties_key}`), "The binding is removed.")) reload();
  }
  const columns = (isOut) => [
    { key: isOut ? "destination" : "source", label: isOut ? "To" : "From", view: (each) => (isOut && each.destination_type === "queue" ? html`<${QueueLink} vhost=${vhost} name=${each.destination} />` : html`<${ExchangeLink} vhost=${vhost} name=${isOut ? each.destination : each.source} />`) },
    ...(isOut ? [{ key: "destination_type", label: "Kind" }] : []),
    { key: "routing_key", label: "Key", view: (each) => html`<code>${shown(each.routing_key)}</code>` },
    { key: "arguments", label: "Arguments", sort: false, view: (each) => (Object.keys(each.arguments ?? {}).length ? html`<code>${text(each.arguments)}</code>` : "") },
    ...(isOut && name ? [{ key: "do", label: "Change", sort: false, view: (each) => html`<button type="button" class="small danger" onClick=${() => onUnbind(each)}>Remove</button>` }] : []),
  ];
  return html`<${PageHead} kind=${html`Exchange in <a href=${href(["vhosts", vhost])}>${shown(vhost)}</a>`} title=${exchangeName(name)} badges=${html`<${Badge} tone="accent">${exchange.type}<//><${Marks} exchange=${exchange} />`}
      actions=${!isOurs && html`<button type="button" class="danger" onClick=${onDelete}>Delete …</button>`} />
    <${Tabs} label="Parts of the exchange" tabs=${[
      ["overview", "Overview", () => html`<div class="grid"><${Card}><${HistoryChart} title="Messages per second" of=${of} format=${rate} lines=${[{ label: "in", pick: (values) => values.in }, { label: "out, to queues", pick: (values) => values.out }]} /><//>
        <div class="stack"><div class="tiles"><${Tile} label="In all" value=${short(exchange.message_stats?.publish_in ?? 0)} /><${Tile} label="Out, to queues" value=${short(exchange.message_stats?.publish_out ?? 0)} /><${Tile} label="Bindings" value=${count(bindingCount)} /></div>
        <${Card} title="Facts"><${Facts} items=${[["Virtual host", shown(exchange.vhost)], ["Type", exchange.type], ["Policy", exchange.policy], ["Arguments", Object.keys(exchange.arguments ?? {}).length ? html`<code>${text(exchange.arguments)}</code>` : "none"], ["Declared by", exchange.user_who_performed_action]]} /><//></div></div>`],
      ["bindings", "Bindings", () => html`${name !== "" && html`<${Card} title="Where messages go"><${ExchangeRoute} vhost=${vhost} exchange=${exchange} incoming=${sources} outgoing=${rows} total=${bindingCount} /><//>`}
        <${Card} title="Bindings from here"><${ServerTable} key=${round} path=${path`/exchanges/${vhost}/${apiName}/bindings/source`} what="binding" initial=${{ sort: "destination" }} size=${25} filterLabel="Filter by the name of the target" keyOf=${(each) => `${each.destination_type} ${each.destination} ${each.properties_key}`} columns=${columns(true)} emptyText="Nothing is bound to it" /><//>
        ${name !== "" && html`<${Card} title="Bindings to here"><${ClientTable} rows=${sources} what="binding" keyOf=${(each) => `${each.source} ${each.properties_key}`} columns=${columns(false)} caption="Bindings to here" emptyText="No exchange sends to it" /><//><${Card} title="Add a binding"><${BindForm} vhost=${vhost} source=${name} onDone=${reload} /><//>`}`, count(bindingCount)],
      isDelayed && ["delayed", "Delayed", () => html`<${HeldMessages} base=${path`/exchanges/${vhost}/${name}/delayed`} title="Delayed messages" intro="The exchange keeps them for their x-delay, and then routes them by the bindings of that time." page="exchanges#x-delayed-message" />`],
      ["test", "Route tester", () => html`<${Card} title="Which queues would get a message?"><${TesterForm} vhost=${vhost} exchange=${name} /><//>`],
      !exchange.internal && ["publish", "Publish", () => html`<${Card} title="Publish to this exchange"><${PublishForm} vhost=${vhost} exchange=${name} /><//>`],
    ]} />`;
}
