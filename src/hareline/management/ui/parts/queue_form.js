// Declares a queue; every argument can be set here and is explained.
import { html, useState } from "../lib/view.js";
import { put } from "../lib/api.js";
import { path, shown } from "../lib/names.js";
import { go } from "../lib/router.js";
import { usePoll } from "../lib/poll.js";
import { Check, Field, Form, Select, tell } from "./basics.js";
import { ArgumentsForm, Pairs, tableOf, useDescriptions } from "./arguments.js";

export function VhostField({ value, onChange }) {
  const { data } = usePoll("/vhosts", { every: 0, query: { columns: "name" } });
  const names = (Array.isArray(data) ? data : data?.items ?? [{ name: value || "/" }]).map((each) => each.name);
  return html`<${Field} label="Virtual host"><${Select} value=${value} onChange=${onChange} options=${names.map((name) => [name, shown(name)])} /><//>`;
}

export function QueueForm({ vhost, type, onDone }) {
  const [place, setPlace] = useState(vhost || "/");
  const [name, setName] = useState("");
  const [queueType, setQueueType] = useState(type ?? "classic");
  const [isDurable, setDurable] = useState(true);
  const [isAutoDelete, setAutoDelete] = useState(false);
  const [values, setValues] = useState({});
  const [others, setOthers] = useState([]);
  const [error, setError] = useState("");
  const [isBusy, setBusy] = useState(false);
  const descriptions = useDescriptions();
  const isClassic = queueType === "classic";
  async function onSubmit() {
    setBusy(true);
    setError("");
    try {
      const fitting = Object.fromEntries(Object.entries(values).filter(([key]) => descriptions.arguments.find((each) => each.name === key)?.queue_types.includes(queueType)));
      const given = { ...fitting, ...tableOf(others) };
      if (!isClassic) given["x-queue-type"] = queueType;
      await put(path`/queues/${place}/${name}`, { durable: isDurable || !isClassic, auto_delete: isAutoDelete && isClassic, arguments: given });
      tell(`Queue ${shown(name)} is there.`);
      onDone?.();
      go(["queues", place, name]);
    } catch (failure) {
      setError(failure.message);
    }
    setBusy(false);
  }
  return html`<${Form} onSubmit=${onSubmit} submit="Declare" error=${error} busy=${isBusy}>
    <div class="columns"><${Field} label="Name"><input required autofocus maxlength="255" spellcheck="false" value=${name} onInput=${(event) => setName(event.target.value)} /><//><${VhostField} value=${place} onChange=${setPlace} />
      <${Field} label="Type"><${Select} value=${queueType} onChange=${setQueueType} options=${[["classic", "classic"], ["quorum", "quorum"], ["stream", "stream: keeps what is read"]]} /><//></div>
    ${isClassic && html`<div class="columns"><${Check} label="Durable" hint="survives a restart" checked=${isDurable} onChange=${setDurable} /><${Check} label="Auto-delete" hint="goes with its last consumer" checked=${isAutoDelete} onChange=${setAutoDelete} /></div>`}
    ${descriptions && html`<${ArgumentsForm} all=${descriptions.arguments.filter((each) => each.name !== "x-queue-type")} groups=${descriptions.groups} values=${values} onChange=${setValues} queueType=${queueType} />`}
    <${Pairs} label="Other arguments" pairs=${others} onChange=${setOthers} nameHint="argument" />
  <//>`;
}
