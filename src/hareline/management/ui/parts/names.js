// An input for the name of a queue or an exchange that is there; the broker suggests as one types.
import { html, useEffect, useId, useState } from "../lib/view.js";
import { get } from "../lib/api.js";
import { path } from "../lib/names.js";

const SUGGESTED = 20;

/** `kind`: queue or exchange. */
export function NameInput({ kind, vhost, value, onChange, ...rest }) {
  const id = useId("names");
  const [names, setNames] = useState([]);
  const [isUsed, setUsed] = useState(false);
  useEffect(() => {
    if (!isUsed) return undefined;
    const aborter = new AbortController();
    const timer = setTimeout(() => {
      get(path`/${`${kind}s`}/${vhost}`, { name: value, page: 1, page_size: SUGGESTED, pagination: true, disable_stats: true, columns: "name" }, aborter.signal)
        .then((answer) => setNames((answer.items ?? answer).map((each) => each.name).filter(Boolean)))
        .catch(() => {
          // it can be typed without suggestions
        });
    }, 150);
    return () => {
      clearTimeout(timer);
      aborter.abort();
    };
  }, [kind, vhost, value, isUsed]);
  return html`<input value=${value} list=${id} spellcheck="false" autocomplete="off" maxlength="255" ...${rest} onFocus=${() => setUsed(true)} onInput=${(event) => onChange(event.target.value)} />
    <datalist id=${id}>${names.map((name) => html`<option key=${name} value=${name} />`)}</datalist>`;
}
