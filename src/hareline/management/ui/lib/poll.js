// A view's data: fetched at once, again after the chosen time, never while the page is hidden, and
// never twice at the same time.
import { useCallback, useEffect, useRef, useState, useValue, observable } from "./view.js";
import { get } from "./api.js";
import { refresh } from "./prefs.js";

/** When the last answer came, and the last error; for the status line. */
export const freshness = observable({ at: 0, error: null });

/**
 * {data, error, reload, isFirst} of GET path. `path` null: nothing is fetched.
 * options: query, every (ms at least; 0 once; default the user's choice, which also pauses), onData.
 */
export function usePoll(path, { query, every, onData } = {}) {
  const chosen = Number(useValue(refresh));
  const wait = every === undefined || chosen === 0 ? chosen : every && Math.max(every, chosen);
  const key = path === null ? null : `${path} ${JSON.stringify(query ?? {})}`;
  const [state, setState] = useState({ key: null, data: null, error: null });
  const [round, setRound] = useState(0);
  const latest = useRef({});
  latest.current = { path, query, onData };

  useEffect(() => {
    if (key === null) return undefined;
    let isOver = false;
    let timer = 0;
    const aborter = new AbortController();
    const later = () => {
      if (!isOver && wait > 0) timer = setTimeout(load, wait);
    };
    async function load() {
      if (document.hidden) return later();
      try {
        const data = await get(latest.current.path, latest.current.query, aborter.signal);
        if (isOver) return undefined;
        latest.current.onData?.(data);
        setState({ key, data, error: null });
        freshness.set({ at: Date.now(), error: null });
      } catch (error) {
        if (isOver || error.name === "AbortError") return undefined;
        setState((before) => ({ key, data: before.key === key ? before.data : null, error }));
        freshness.set({ at: freshness.get().at, error });
      }
      return later();
    }
    load();
    return () => {
      isOver = true;
      clearTimeout(timer);
      aborter.abort();
    };
  }, [key, wait, round]);

  const reload = useCallback(() => setRound((number) => number + 1), []);
  const isCurrent = state.key === key;
  return {
    data: isCurrent || state.key?.split(" ")[0] === path ? state.data : null,
    error: isCurrent ? state.error : null,
    isFirst: !isCurrent && state.data === null,
    reload,
  };
}

const HISTORY_MAX = 360;
const histories = new Map();

/** Add a point to the history of `key` (kept while the page is open) and return all of them. */
export function remember(key, values) {
  let points = histories.get(key);
  if (!points) {
    if (histories.size > 600) histories.delete(histories.keys().next().value);
    histories.set(key, points = []);
  }
  const now = Date.now() / 1000;
  if (points.length && now - points[points.length - 1].at < 0.5) points.pop();
  points.push({ at: now, values });
  if (points.length > HISTORY_MAX) points.shift();
  return points;
}

const hasSomething = (values) => Object.values(values).some((value) => (typeof value === "object" && value !== null ? hasSomething(value) : Boolean(value)));

/** Without the samples of the time before there was anything, so that a curve begins where it does. */
function begun(points) {
  const first = points.findIndex((point) => hasSomething(point.values));
  return first < 0 ? [] : points.slice(Math.max(0, first - 1));
}

/** Fill an empty history with what the server has sampled. `points`: [{at (s), values}], oldest first. */
export function seed(key, points) {
  const kept = histories.get(key) ?? [];
  const first = kept[0]?.at ?? Infinity;
  histories.set(key, [...begun(points).filter((point) => point.at < first), ...kept].slice(-HISTORY_MAX));
}

/** The windows of samples that `seed` is filled from. */
export const WINDOW = { lengths_age: 1800, lengths_incr: 10, msg_rates_age: 1800, msg_rates_incr: 10, data_rates_age: 1800, data_rates_incr: 10, node_stats_age: 1800, node_stats_incr: 10 };

/**
 * Points of `details`: name -> an object with `samples` (newest first), as values or as rates per
 * second. `make(values)`: of the values at one time.
 */
export function sampled(levels, counters, make) {
  const times = new Map();
  const put = (name, at, value) => times.set(at, { ...times.get(at), [name]: value });
  for (const [name, details] of Object.entries(levels)) for (const { sample, timestamp } of details?.samples ?? []) put(name, timestamp, sample);
  for (const [name, details] of Object.entries(counters)) {
    const samples = [...(details?.samples ?? [])].sort((a, b) => a.timestamp - b.timestamp);
    for (let place = 1; place < samples.length; place += 1) {
      const seconds = (samples[place].timestamp - samples[place - 1].timestamp) / 1000;
      if (seconds > 0) put(name, samples[place].timestamp, Math.max(0, (samples[place].sample - samples[place - 1].sample) / seconds));
    }
  }
  return [...times].sort(([a], [b]) => a - b).map(([at, values]) => ({ at: at / 1000, values: make(values) }));
}

/** Once for a view: `key`'s history from the samples of GET path. `pointsOf(answer)`. */
export function useSeed(key, path, pointsOf, onDone) {
  useEffect(() => {
    if (path === null || history(key).length > 30) return;
    get(path, WINDOW).then((answer) => {
      seed(key, pointsOf(answer));
      onDone?.();
    }).catch(() => {
      // the curve then begins with the first answer
    });
  }, [key, path]);
}

export const history = (key) => histories.get(key) ?? [];
