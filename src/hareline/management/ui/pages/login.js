import { html, useState, useTitle, useValue } from "../lib/view.js";
import { login } from "../lib/api.js";
import { begin, loginReason } from "../lib/session.js";

const USEFUL = ["administrator", "monitoring", "policymaker", "management"];

function sentence(error) {
  if (error.message.startsWith("Not management user")) return `${error.message}. An administrator can give it one.`;
  if (error.status === 401) return `${error.message}. Check the name and the password; “guest” may log in only from the broker's own machine.`;
  if (error.status === 429) return "Too many failed logins from this address. Wait a little, then try again.";
  return error.message;
}

export function Login() {
  useTitle("Log in");
  const reason = useValue(loginReason);
  const [name, setName] = useState("");
  const [password, setPassword] = useState("");
  const [error, setError] = useState("");
  const [isBusy, setBusy] = useState(false);
  async function onSubmit(event) {
    event.preventDefault();
    if (name.includes(":")) {
      setError("A user name has no colon: HTTP basic authentication cannot carry one.");
      return;
    }
    setBusy(true);
    setError("");
    try {
      const user = await login(name, password);
      if (!user.tags.some((tag) => USEFUL.includes(tag))) setError(`User '${user.name}' has none of the tags ${USEFUL.join(", ")}, so it may not see this page. An administrator can give it one.`);
      else begin(user.name, user.tags, user.authorization);
    } catch (failure) {
      setError(sentence(failure));
    }
    setBusy(false);
  }
  return html`<main class="login"><div class="card">
    <div class="login-brand"><img src="ui/icon.svg" alt="" /><div><h1>Hareline</h1><p class="muted">Message broker</p></div></div>
    ${reason && !error && html`<div class="notice warn" role="status">${reason}</div>`}
    <form class="form" onSubmit=${onSubmit}>
      <label class="field"><span class="field-label">User</span><input name="username" autocomplete="username" required autofocus value=${name} onInput=${(event) => setName(event.target.value)} /></label>
      <label class="field"><span class="field-label">Password</span><input type="password" name="password" autocomplete="current-password" value=${password} onInput=${(event) => setPassword(event.target.value)} /></label>
      ${error && html`<div class="notice danger" role="alert">${error}</div>`}
      <button type="submit" class="primary" disabled=${isBusy}>${isBusy ? "Logging in …" : "Log in"}</button>
    </form>
    <p class="hint">The login stays in this tab and ends with it. There is no cookie.</p>
  </div></main>`;
}
