// Publishes a message to an exchange, or by the default exchange to a queue.
import { html, useState } from "../lib/view.js";
import { post } from "../lib/api.js";
import { encode, path } from "../lib/names.js";
import { Check, Field, Form, Notice, Select, tell } from "./basics.js";
import { Pairs, tableOf } from "./arguments.js";

const PROPERTIES = [["content_type", "Content type", "application/json"], ["priority", "Priority", "4"], ["expiration", "Expiration (ms)", "60000"], ["message_id", "Message id", ""], ["correlation_id", "Correlation id", ""], ["reply_to", "Reply to", ""], ["type", "Type", ""], ["app_id", "Application", ""]];

export function PublishForm({ vhost, exchange = "", routingKey = "", isFixedKey = false, onDone }) {
  const [key, setKey] = useState(routingKey);
  const [payload, setPayload] = useState("");
  const [encoding, setEncoding] = useState("string");
  const [isPersistent, setPersistent] = useState(true);
  const [properties, setProperties] = useState({});
  const [headers, setHeaders] = useState([]);
  const [error, setError] = useState("");
  const [isBusy, setBusy] = useState(false);
  const [isUnrouted, setUnrouted] = useState(false);
  async function onSubmit() {
    setBusy(true);
    setError("");
    setUnrouted(false);
    try {
      const given = Object.fromEntries(Object.entries(properties).filter(([, value]) => value !== ""));
      if (given.priority !== undefined) given.priority = Number(given.priority);
      const table = tableOf(headers);
      if (Object.keys(table).length) given.headers = table;
      given.delivery_mode = isPersistent ? 2 : 1;
      const answer = await post(path`/exchanges/${vhost}/${exchange || "amq.default"}/publish`, { properties: given, routing_key: key, payload, payload_encoding: encoding });
      if (answer.routed) tell("Published, and routed to a queue.");
      else setUnrouted(true);
      onDone?.();
    } catch (failure) {
      setError(failure.message);
    }
    setBusy(false);
  }
  return html`<${Form} onSubmit=${onSubmit} submit="Publish" error=${error} busy=${isBusy}>
    ${isUnrouted && html`<${Notice} tone="warn" title="Not routed.">No binding matched, so no queue has the message. <a href=${`#/route-tester?vhost=${encode(vhost)}&exchange=${encode(exchange)}&key=${encode(key)}`}>Test the route</a><//>`}
    <div class="columns">${!isFixedKey && html`<${Field} label="Routing key"><input value=${key} spellcheck="false" onInput=${(event) => setKey(event.target.value)} /><//>`}
      <${Field} label="Body is"><${Select} value=${encoding} onChange=${setEncoding} options=${[["string", "text"], ["base64", "base64 of octets"]]} /><//></div>
    <${Field} label="Body"><textarea value=${payload} spellcheck="false" onInput=${(event) => setPayload(event.target.value)} /><//>
    <${Check} label="Persistent" hint="a durable queue keeps it over a restart" checked=${isPersistent} onChange=${setPersistent} />
    <${Pairs} label="Headers" pairs=${headers} onChange=${setHeaders} nameHint="header" />
    <details class="group"><summary>Properties</summary><div class="columns">${PROPERTIES.map(([name, label, example]) => html`<${Field} key=${name} label=${label}><input placeholder=${example} value=${properties[name] ?? ""} inputmode=${name === "priority" || name === "expiration" ? "numeric" : undefined} spellcheck="false" onInput=${(event) => setProperties({ ...properties, [name]: event.target.value })} /><//>`)}</div></details>
  <//>`;
}

