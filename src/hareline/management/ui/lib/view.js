// The one door to the vendored view library: views are functions that return html`...`.
// htm makes virtual nodes, never markup, so every text is escaped by the browser.
import { h, render, Fragment } from "../vendor/preact.module.js";
import {
  useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState,
} from "../vendor/preact-hooks.module.js";
import htm from "../vendor/htm.module.js";

export const html = htm.bind(h);
export { render, Fragment, useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState };

/** A value that views can watch: {get, set, watch}. */
export function observable(initial) {
  let value = initial;
  const watchers = new Set();
  return {
    get: () => value,
    set(next) {
      if (Object.is(next, value)) return;
      value = next;
      for (const watcher of [...watchers]) watcher(value);
    },
    watch(watcher) {
      watchers.add(watcher);
      return () => watchers.delete(watcher);
    },
  };
}

/** The current value of an observable; the view is drawn again when it changes. */
export function useValue(source) {
  const [value, setValue] = useState(source.get());
  useEffect(() => {
    setValue(source.get());
    return source.watch(setValue);
  }, [source]);
  return value;
}

let ids = 0;
/** An id that is unique on the page and stays with the view. */
export function useId(prefix = "id") {
  const id = useRef(null);
  if (id.current === null) id.current = `${prefix}-${++ids}`;
  return id.current;
}

/** Sets the title of the page, and with it what screen readers announce. */
export function useTitle(title) {
  useEffect(() => {
    document.title = title ? `${title} · Hareline` : "Hareline";
  }, [title]);
}
