import { html, useState, useTitle, useValue } from "../lib/view.js";
import { download, post } from "../lib/api.js";
import { path, shown } from "../lib/names.js";
import { vhost as chosenVhost } from "../lib/prefs.js";
import { count, plural } from "../lib/format.js";
import { save } from "../parts/files.js";
import { ClientTable } from "../parts/table.js";
import { Card, DocLink, Facts, Field, Form, Notice, PageHead, attempt } from "../parts/basics.js";

const KINDS = ["users", "vhosts", "permissions", "topic_permissions", "policies", "parameters", "global_parameters", "queues", "exchanges", "bindings"];

export function Definitions() {
  useTitle("Definitions");
  const vhost = useValue(chosenVhost);
  const [file, setFile] = useState(null);
  const [error, setError] = useState("");
  const [answer, setAnswer] = useState(null);
  const [isBusy, setBusy] = useState(false);
  const of = vhost ? path`/definitions/${vhost}` : "/definitions";
  async function onExport() {
    await attempt(async () => {
      save(await (await download(of)).blob(), `hareline-definitions${vhost ? "-vhost" : ""}.json`);
    }, "Exported.");
  }
  async function onChoose(event) {
    setError("");
    setAnswer(null);
    const chosen = event.target.files[0];
    if (!chosen) return setFile(null);
    try {
      const value = JSON.parse(await chosen.text());
      if (typeof value !== "object" || value === null || Array.isArray(value)) throw new Error("no object");
      return setFile({ name: chosen.name, value, octets: chosen });
    } catch {
      setFile(null);
      return setError(`${chosen.name} is not a file of definitions: it has to be one object of JSON.`);
    }
  }
  async function onImport() {
    setBusy(true);
    setError("");
    try {
      // as it is: numbers beyond 2^53 would not survive a way through this page
      setAnswer((await post(of, file.octets, { query: { report: true } })) ?? {});
    } catch (failure) {
      setError(failure.message);
    }
    setBusy(false);
  }
  const problems = answer?.left_out ?? [];
  const done = Object.entries(answer?.done ?? {}).filter(([, number]) => number);
  return html`<${PageHead} title="Definitions" intro=${`Users, virtual hosts, permissions, policies, queues, exchanges and bindings ${vhost ? `of ${shown(vhost)} ` : ""}as a file in RabbitMQ's format: to keep, and to move from and to another broker. Messages are not in it.`} badges=${html`<${DocLink} page="definitions">More about definitions<//>`} />
    <div class="grid"><${Card} title="Export"><p>Everything that is durable${vhost ? " in this virtual host" : ""}.</p><div><button type="button" class="primary" onClick=${onExport}>Export as a file</button></div><//>
    <${Card} title="Import"><${Form} onSubmit=${onImport} submit="Import" busy=${isBusy || (!file && "no file")} error=${error}><${Field} label="File" hint="what is there already stays; nothing is deleted"><input type="file" onClick=${(event) => { event.target.value = ""; }} accept=".json,application/json" onChange=${onChoose} /><//>
      ${file && html`<${Facts} items=${KINDS.filter((kind) => file.value[kind]?.length).map((kind) => [kind.replace("_", " "), plural(file.value[kind].length, "entry", "entries")])} />`}<//>
      ${answer && html`<${Notice} tone=${problems.length ? "warn" : "ok"} title=${problems.length ? "Imported, but not all of it." : "Imported."}>${done.length ? done.map(([kind, number]) => `${count(number)} ${kind.replaceAll("_", " ")}`).join(", ") : "Nothing was in the file."}<//>
        ${problems.length > 0 && html`<${ClientTable} rows=${problems} what="entry" whats="entries" caption="Left out" keyOf=${(each) => `${each.what} ${each.vhost} ${each.name} ${each.reason}`} columns=${[{ key: "what", label: "Left out", view: (each) => html`${each.what.replaceAll("_", " ")} <b>${shown(each.name)}</b>${each.vhost && html`<span class="sub">${shown(each.vhost)}</span>`}` }, { key: "reason", label: "Why", view: (each) => shown(each.reason) }]} />`}`}<//></div>`;
}
