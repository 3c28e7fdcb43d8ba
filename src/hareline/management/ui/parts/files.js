// Files: saved from the page, and messages to and from a file.
import { html, useState } from "../lib/view.js";
import * as operations from "../lib/operations.js";
import { bytes, count, plural } from "../lib/format.js";
import { shown } from "../lib/names.js";
import { Dialog, Field, Form, tell } from "./basics.js";
import { work } from "./work.js";

/** Has the browser save a Blob under this name. */
export function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

const fileName = (name) => `${shown(name).replace(/[^\p{L}\p{N}._-]+/gu, "_").slice(0, 80) || "queue"}.messages.jsonl`;

/** Save messages of a queue; they stay in it. `body`: which; {} for all. */
export function saveMessages(vhost, queue, body) {
  return work("Export", async ({ signal, onProgress }) => {
    const { file, messages, unreadable } = await operations.exported(vhost, queue.name, body, { signal, onProgress: (octets) => onProgress(bytes(octets)) });
    save(file, fileName(queue.name));
    tell(`${plural(messages, "message")} exported.${unreadable ? ` ${count(unreadable)} could not be read from disk and ${unreadable === 1 ? "is" : "are"} missing.` : ""}`, unreadable ? "warn" : "ok");
    return messages;
  });
}

export function ImportForm({ vhost, queue, onClose, onDone }) {
  const [file, setFile] = useState(null);
  const [error, setError] = useState("");
  const [isBusy, setBusy] = useState(false);
  async function onSubmit() {
    setBusy(true);
    setError("");
    try {
      const answer = await work("Import", ({ signal, onProgress }) => {
        onProgress(`sending ${bytes(file.size)} …`);
        return operations.imported(vhost, queue.name, file, { signal });
      }, { throws: true });
      if (answer) {
        tell(operations.outcome(answer, "imported"), Object.keys(answer.refused ?? {}).length ? "warn" : "ok");
        onClose();
      }
    } catch (failure) {
      const done = failure.details?.imported;
      setError(`${failure.message}${done === undefined ? "" : `. ${plural(done, "message")} before that ${done === 1 ? "is" : "are"} in the queue.`}`);
    }
    setBusy(false);
    onDone?.();
  }
  return html`<${Dialog} title="Import messages" onClose=${onClose}><${Form} onSubmit=${onSubmit} submit="Import" error=${error} busy=${isBusy || (!file && "no file")}>
    <p>Messages of a file that was exported here or by <code>hareline queue export</code> are put behind those of ${shown(queue.name)}, in the order of the file.</p>
    <${Field} label="File" hint=${file ? bytes(file.size) : "lines of JSON, .jsonl"}><input type="file" onClick=${(event) => { event.target.value = ""; }} accept=".jsonl,.ndjson,.json,application/x-ndjson" onChange=${(event) => { setError(""); setFile(event.target.files[0] ?? null); }} /><//><//><//>`;
}
