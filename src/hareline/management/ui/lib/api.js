// Requests to the broker's HTTP API, which is beside this page: never to another host.
import { encode } from "./names.js";
import { authorizationOf, end, session } from "./session.js";

const BASE = new URL("api", document.baseURI).href;

/** An answer that is not a success: status, a word for programs, a sentence for people. */
export class ApiError extends Error {
  constructor(status, error, reason, details = {}) {
    super(reason);
    this.status = status;
    this.error = error;
    this.details = details;
  }
}

function urlOf(path, query) {
  const parts = [];
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value === undefined || value === null || value === "") continue;
    parts.push(`${encode(name)}=${encode(value)}`);
  }
  return BASE + path + (parts.length ? `?${parts.join("&")}` : "");
}

async function request(method, path, { query, body, headers, signal, authorization } = {}) {
  const authority = authorization ?? session.get()?.authorization;
  const init = {
    method,
    signal,
    // no prompt of the browser after a 401, and nothing it remembers is sent
    credentials: "omit",
    cache: "no-store",
    redirect: "error",
    headers: { Accept: "application/json", ...headers },
  };
  if (authority) init.headers.Authorization = authority;
  if (body instanceof FormData || body instanceof Blob) init.body = body;
  else if (body !== undefined) {
    init.body = JSON.stringify(body);
    init.headers["Content-Type"] = "application/json";
  }
  let response;
  try {
    response = await fetch(urlOf(path, query), init);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "unreachable", "The broker does not answer. It may be stopping, or the network is down.");
  }
  if (!response.ok) throw await refusal(response, authorization !== undefined);
  return response;
}

async function refusal(response, isLogin) {
  let said = {};
  try {
    said = await response.json();
  } catch {
    // no JSON: the status has to do
  }
  const reason = typeof said.reason === "string" ? said.reason
    : said.detail ? JSON.stringify(said.detail) : `${response.status} ${response.statusText}`;
  if (response.status === 401 && !isLogin && session.get()) await endIfInvalid(session.get());
  return new ApiError(response.status, said.error ?? "", reason, said);
}

/** RabbitMQ's API answers 401 for a missing right too: only a login that fails ends the session. */
async function endIfInvalid(who) {
  const headers = { Authorization: who.authorization };
  const answer = await fetch(urlOf("/whoami"), { credentials: "omit", cache: "no-store", headers }).catch(() => null);
  if (answer?.status === 401 && session.get() === who) {
    end("Your login is no longer valid. The password may have changed, or the user is gone.");
  }
}

async function json(method, path, options) {
  const response = await request(method, path, options);
  if (response.status === 204) return null;
  const text = await response.text();
  return text ? JSON.parse(text) : null;
}

export const get = (path, query, signal) => json("GET", path, { query, signal });
export const post = (path, body, options) => json("POST", path, { body, ...options });
export const put = (path, body, options) => json("PUT", path, { body, ...options });
export const patch = (path, body, options) => json("PATCH", path, { body, ...options });
export const del = (path, options) => json("DELETE", path, options);
export const download = (path, options) => request(options?.method ?? "GET", path, options);
/** Sends a file as it is. */
export const upload = (path, file, options) => json("POST", path, { body: file, headers: { "Content-Type": "application/x-ndjson" }, ...options });

/** The lines of JSON of an answer, as they come. */
export async function* lines(path, body, options) {
  const response = await request("POST", path, { body, ...options });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (let isOver = false; !isOver;) {
    const { value, done } = await reader.read();
    isOver = done;
    const parts = (rest + (value ?? "")).split("\n");
    rest = parts.pop();
    for (const part of parts) if (part.trim()) yield JSON.parse(part);
  }
  if (rest.trim()) yield JSON.parse(rest);
}

/** The user's name and tags. Raises ApiError 401 if the login is wrong. */
export async function login(name, password) {
  const authorization = authorizationOf(name, password);
  const user = await json("GET", "/whoami", { authorization });
  const tags = Array.isArray(user.tags) ? user.tags : String(user.tags ?? "").split(",").filter(Boolean);
  return { name: user.name, tags, authorization };
}
