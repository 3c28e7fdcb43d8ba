// The address of a view is the hash: #/queues/%2F/orders?tab=messages. It can be bookmarked and
// sent to others, and Back works.
import { observable } from "./view.js";
import { decode, encode } from "./names.js";

function read() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?", 2);
  const params = {};
  for (const part of query.split("&").filter(Boolean)) {
    const [name, ...rest] = part.split("=");
    params[decode(name)] = decode(rest.join("=").replaceAll("+", " "));
  }
  return { segments: path.split("/").filter((each) => each !== "").map(decode), params };
}

/** {segments, params}; an empty name in a path is written as "~". */
export const route = observable(read());
addEventListener("hashchange", () => route.set(read()));

/** The link to a view: href(["queues", vhost, name], {tab: "messages"}). */
export function href(segments, params = {}) {
  const query = Object.entries(params)
    .filter(([, value]) => value !== undefined && value !== null && value !== "")
    .map(([name, value]) => `${encode(name)}=${encode(value)}`).join("&");
  return `#/${segments.map((each) => (each === "" ? "~" : encode(each))).join("/")}${query ? `?${query}` : ""}`;
}

export const named = (segment) => (segment === "~" ? "" : segment);

export function go(segments, params) {
  location.hash = href(segments, params);
}

/** Change some parameters of the present address without a new entry in the history. */
export function setParams(changes) {
  const { segments, params } = route.get();
  history.replaceState(null, "", href(segments.map(named), { ...params, ...changes }));
  route.set(read());
}
