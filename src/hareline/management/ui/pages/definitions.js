import { html, useState, useTitle, useValue } from "../lib/view.js";
import { download, post } from "../lib/api.js";
import { path, shown } from "../lib/names.js";
import { vhost as chosenVhost } from "../lib/prefs.js";
import { plural } from "../lib/format.js";
import { Card, Facts, Field, Form, Notice, PageHead, attempt } from "../parts/basics.js";

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
      const octets = await (await download(of)).blob();
      const link = document.createElement("a");
      link.href = URL.createObjectURL(octets);
      link.download = `hareline-definitions${vhost ? "-vhost" : ""}.json`;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
    }, "Exported.");
  }
  async function onChoose(event) {
    setError("");
    setAnswer(null);
    const chosen = event.target.files[0];
    if (!chosen) return setFile(null);
    try {
      const value = JSON.parse(await chosen.text());
      return setFile({ name: chosen.name, value });
    } catch {
      setFile(null);
      return setError(`${chosen.name} is not valid JSON.`);
    }
  }
  async function onImport() {
    setBusy(true);
    setError("");
    try {
      setAnswer((await post(of, file.value)) ?? {});
    } catch (failure) {
      setError(failure.message);
    }
    setBusy(false);
  }
  const problems = answer?.not_carried ?? answer?.problems ?? answer?.warnings ?? [];
  return html`<${PageHead} title="Definitions" intro=${`Users, virtual hosts, permissions, policies, queues, exchanges and bindings ${vhost ? `of ${shown(vhost)} ` : ""}as a file in RabbitMQ's format: to keep, and to move from and to another broker. Messages are not in it.`} />
    <div class="grid"><${Card} title="Export"><p>Everything that is durable${vhost ? " in this virtual host" : ""}.</p><div><button type="button" class="primary" onClick=${onExport}>Export as a file</button></div><//>
    <${Card} title="Import"><${Form} onSubmit=${onImport} submit="Import" busy=${isBusy || (!file && "no file")} error=${error}><${Field} label="File" hint="what is there already stays; nothing is deleted"><input type="file" accept=".json,application/json" onChange=${onChoose} /><//>
      ${file && html`<${Facts} items=${KINDS.filter((kind) => file.value[kind]?.length).map((kind) => [kind.replace("_", " "), plural(file.value[kind].length, "entry", "entries")])} />`}<//>
      ${answer && html`<${Notice} tone=${problems.length ? "warn" : "ok"} title="Imported.">${problems.length ? html`<ul>${problems.map((problem, place) => html`<li key=${place}>${typeof problem === "string" ? problem : JSON.stringify(problem)}</li>`)}</ul>` : "All of it."}<//>`}<//></div>`;
}
