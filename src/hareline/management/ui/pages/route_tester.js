import { html, useEffect, useState, useTitle, useValue } from "../lib/view.js";
import { post } from "../lib/api.js";
import { exchangeName, path, shown } from "../lib/names.js";
import { href, route } from "../lib/router.js";
import { vhost as chosenVhost } from "../lib/prefs.js";
import { duration, plural, text } from "../lib/format.js";
import { Badge, Card, Check, ExchangeLink, Field, Form, Notice, PageHead, QueueLink } from "../parts/basics.js";
import { Pairs, emptyPair, tableOf } from "../parts/arguments.js";
import { NameInput } from "../parts/names.js";
import { RoutePicture } from "../parts/route_picture.js";
import { VhostField } from "../parts/queue_form.js";

const OUTCOMES = { taken: ["ok", "takes it"], possible: ["info", "may take it"], not_chosen: ["plain", "another's share"], filtered: ["warn", "filter refuses"], no_match: ["plain", "does not match"], replaced: ["plain", "replaced"] };

function Picture({ vhost, answer }) {
  const nodes = [];
  const edges = [];
  const depth = new Map();
  for (const step of answer.steps) {
    const column = step.reached_from === null ? 0 : (depth.get(step.reached_from) ?? 0) + 1;
    depth.set(step.exchange, column);
    nodes.push({ id: `x ${step.exchange}`, column, kind: "exchange", name: exchangeName(step.exchange), note: step.type, link: step.exchange ? href(["exchanges", vhost, step.exchange]) : undefined });
  }
  const last = Math.max(0, ...depth.values()) + 1;
  for (const name of [...answer.queues, ...answer.possible].slice(0, 20)) nodes.push({ id: `q ${name}`, column: last, kind: "queue", name: shown(name), note: answer.possible.includes(name) ? "maybe" : "gets it", link: href(["queues", vhost, name]) });
  for (const step of answer.steps) {
    const seen = new Set();
    for (const verdict of step.bindings.filter((each) => each.outcome === "taken" || each.outcome === "possible")) {
      const to = `${verdict.destination_type === "queue" ? "q" : "x"} ${verdict.destination}`;
      if (seen.has(to)) continue;
      seen.add(to);
      edges.push({ from: `x ${step.exchange}`, to, label: shown(verdict.routing_key), tone: "taken" });
    }
    if (step.alternate !== null) edges.push({ from: `x ${step.exchange}`, to: nodes.some((node) => node.id === `x ${step.alternate}`) ? `x ${step.alternate}` : `q ${step.alternate}`, label: "alternate", tone: "alternate" });
  }
  return html`<${RoutePicture} label="The way of the message" nodes=${nodes} edges=${edges} />`;
}

function Answer({ vhost, answer }) {
  const getting = answer.queues.length;
  return html`<div class="stack" role="status">
    ${getting ? html`<${Notice} tone="ok" title=${`${plural(getting, "queue")} ${getting === 1 ? "gets" : "get"} the message:`}>${answer.queues.map((name, place) => html`${place ? ", " : ""}<${QueueLink} vhost=${vhost} name=${name} />`)}<//>`
      : answer.possible.length ? null : html`<${Notice} tone="warn" title="No queue gets the message.">A mandatory publish would be returned; any other is dropped. Below is why each binding does not take it.<//>`}
    ${answer.possible.length > 0 && html`<${Notice} tone="info" title="By chance one of:">${answer.possible.map((name, place) => html`${place ? ", " : ""}<${QueueLink} vhost=${vhost} name=${name} />`)}<//>`}
    ${answer.delay_ms > 0 && html`<${Notice} title="Delayed.">The exchange keeps the message for ${duration(answer.delay_ms)}, and routes it by the bindings of that time.<//>`}
    ${answer.archives.length > 0 && html`<${Notice} title="Recorded in:">${answer.archives.map(shown).join(", ")}<//>`}
    <${Picture} vhost=${vhost} answer=${answer} />
    <ol class="steps">${answer.steps.map((step) => html`<li key=${step.exchange} class=${`step ${step.by_alternate ? "alternate" : ""}`}>
      <div><b><${ExchangeLink} vhost=${vhost} name=${step.exchange} /></b> <${Badge}>${step.type}<//> ${step.by_alternate && html`<${Badge} tone="warn">as alternate of ${exchangeName(step.reached_from)}<//>`}
        <span class="muted"> ${step.routing_keys.map((key) => `“${shown(key)}”`).join(", ")} · ${plural(step.binding_count, "binding")}</span></div>
      ${step.bindings.length > 0 && html`<ul class="plain">${step.bindings.slice(0, 60).map((verdict, place) => { const [tone, label] = OUTCOMES[verdict.outcome]; return html`<li key=${place}><${Badge} tone=${tone}>${label}<//> ${verdict.destination_type === "queue" ? html`<${QueueLink} vhost=${vhost} name=${verdict.destination} />` : html`<${ExchangeLink} vhost=${vhost} name=${verdict.destination} />`} <code>${shown(verdict.routing_key)}</code>${Object.keys(verdict.arguments).length > 0 && html` <code>${text(verdict.arguments)}</code>`} <span class="muted">${verdict.reason}</span></li>`; })}</ul>`}
      ${step.binding_count > Math.min(60, step.bindings.length) && html`<p class="muted">${plural(step.binding_count - Math.min(60, step.bindings.length), "further binding")} not listed.</p>`}
      ${step.alternate !== null && html`<p><${Badge} tone="warn">alternate<//> ${exchangeName(step.alternate)}: ${step.alternate_reason}</p>`}
    </li>`)}</ol></div>`;
}

export function TesterForm({ vhost: fixedVhost, exchange: fixedExchange }) {
  const { params } = useValue(route);
  const chosen = useValue(chosenVhost);
  const [vhost, setVhost] = useState(fixedVhost ?? params.vhost ?? (chosen || "/"));
  const [exchange, setExchange] = useState(fixedExchange ?? params.exchange ?? "");
  const [key, setKey] = useState(params.key ?? "");
  const [headers, setHeaders] = useState([]);
  const [properties, setProperties] = useState([]);
  const [hasMore, setMore] = useState(false);
  const [answer, setAnswer] = useState(null);
  const [error, setError] = useState("");
  const [isBusy, setBusy] = useState(false);
  useEffect(() => setAnswer(null), [vhost, exchange, key]);
  async function onSubmit() {
    setBusy(true);
    setError("");
    try {
      setAnswer(await post(path`/exchanges/${vhost}/${exchange || "amq.default"}/route-test`, { routing_key: key, headers: tableOf(headers), properties: tableOf(properties) }));
    } catch (failure) {
      setAnswer(null);
      setError(failure.message);
    }
    setBusy(false);
  }
  return html`<${Form} onSubmit=${onSubmit} submit="Test the route" error=${error} busy=${isBusy}>
    <div class="columns">${fixedVhost === undefined && html`<${VhostField} value=${vhost} onChange=${(next) => { setVhost(next); setExchange(""); }} />`}
      ${fixedExchange === undefined && html`<${Field} label="Exchange" hint="empty: the default exchange"><${NameInput} kind="exchange" vhost=${vhost} value=${exchange} onChange=${setExchange} /><//>`}
      <${Field} label="Routing key"><input value=${key} spellcheck="false" autocomplete="off" onInput=${(event) => setKey(event.target.value)} /><//></div>
    <${Pairs} label="Headers" pairs=${headers} onChange=${setHeaders} nameHint="header" />
    <${Check} label="With further properties" hint="for selectors and hashes: priority, message_id, correlation_id, type …" checked=${hasMore} onChange=${(next) => { setMore(next); setProperties(next ? [emptyPair()] : []); }} />
    ${hasMore && html`<${Pairs} label="Properties" pairs=${properties} onChange=${setProperties} nameHint="property" />`}
  <//>${answer && html`<${Answer} vhost=${vhost} answer=${answer} />`}`;
}

export function RouteTester() {
  useTitle("Route tester");
  return html`<${PageHead} title="Route tester" intro="Which queues would get a message, by which bindings, selectors and alternates. Nothing is published." /><${Card}><${TesterForm} /><//>`;
}

