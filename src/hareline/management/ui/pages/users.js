import { html, useState, useTitle } from "../lib/view.js";
import { del, put } from "../lib/api.js";
import { path, shown } from "../lib/names.js";
import { go, href } from "../lib/router.js";
import { usePoll } from "../lib/poll.js";
import { session } from "../lib/session.js";
import { Badge, Card, Check, Dialog, DocLink, Facts, Field, Form, Notice, PageHead, Waiting, attempt, confirm, tell } from "../parts/basics.js";
import { ClientTable } from "../parts/table.js";
import { VhostField } from "../parts/queue_form.js";
import { Limits, rowsOf } from "./vhosts.js";

const TAGS = [["administrator", "may do everything"], ["monitoring", "sees everything, changes nothing of others"], ["policymaker", "sets policies and parameters"], ["management", "sees and uses its own virtual hosts here"]];

export const tagsOf = (user) => (Array.isArray(user.tags) ? user.tags : String(user.tags ?? "").split(",").map((tag) => tag.trim()).filter(Boolean));

/** True if only the settings file can change it. */
export const isFixed = (object) => object.set_by === "settings";

/** Says that a user whose password everybody knows should go. `users`: null while they are unknown. */
export function DefaultUsers({ users }) {
  return (users ?? []).filter((each) => each.has_default_password).map((each) => html`<${Notice} key=${each.name} tone="warn" title=${`User ${shown(each.name)} has the password that everybody knows`}>
    It may log in ${each.loopback_only ? "from the broker's machine only" : "from everywhere"}. ${users.some((other) => other.name !== each.name && tagsOf(other).includes("administrator"))
      ? html`<a href=${href(["users", each.name])}>Delete it</a>, or: <code>hareline user delete ${shown(each.name)}</code>`
      : html`Add another administrator under <a href=${href(["users"])}>Users</a>, then delete it.`}<//>`);
}

function TagBoxes({ tags, onChange }) {
  return html`<fieldset><legend>Tags</legend>${TAGS.map(([tag, meaning]) => html`<${Check} key=${tag} label=${tag} hint=${meaning} checked=${tags.includes(tag)} onChange=${(isOn) => onChange(isOn ? [...tags, tag] : tags.filter((each) => each !== tag))} />`)}</fieldset>`;
}

function UserForm({ of, onDone }) {
  const [name, setName] = useState(of?.name ?? "");
  const [password, setPassword] = useState("");
  const [again, setAgain] = useState("");
  const [tags, setTags] = useState(of ? tagsOf(of) : ["management"]);
  const [hasNoPassword, setNoPassword] = useState(false);
  const [error, setError] = useState("");
  async function onSubmit() {
    if (password !== again) {
      setError("The two passwords differ.");
      return;
    }
    if (!of && !password && !hasNoPassword) {
      setError("Give a password, or say that the user has none.");
      return;
    }
    setError("");
    try {
      const body = { tags: tags.join(",") };
      if (password) body.password = password;
      else if (hasNoPassword || !of) body.password_hash = "";
      else Object.assign(body, { password_hash: of.password_hash, hashing_algorithm: of.hashing_algorithm });
      await put(path`/users/${name}`, body);
      tell(`User ${shown(name)} is set.`);
      onDone();
    } catch (failure) {
      setError(failure.message);
    }
  }
  return html`<${Form} onSubmit=${onSubmit} submit=${of ? "Save" : "Add"} error=${error}>
    ${!of && html`<${Field} label="Name"><input required autofocus value=${name} autocomplete="off" spellcheck="false" onInput=${(event) => setName(event.target.value)} /><//>`}
    <div class="columns"><${Field} label=${of ? "New password" : "Password"} hint=${of && "empty: it stays"}><input type="password" autocomplete="new-password" value=${password} onInput=${(event) => setPassword(event.target.value)} /><//><${Field} label="Password again"><input type="password" autocomplete="new-password" value=${again} onInput=${(event) => setAgain(event.target.value)} /><//></div>
    <${Check} label="No password" hint="the user cannot log in with one" checked=${hasNoPassword} onChange=${setNoPassword} /><${TagBoxes} tags=${tags} onChange=${setTags} /><//>`;
}

export function Users() {
  useTitle("Users");
  const poll = usePoll("/users", { every: 15_000 });
  const [isAdding, setAdding] = useState(false);
  return html`<${PageHead} title="Users" actions=${html`<button type="button" class="primary" onClick=${() => setAdding(true)}>Add a user</button>`} />
    <${DefaultUsers} users=${poll.data && rowsOf(poll.data)} />
    ${!poll.data ? html`<${Waiting} poll=${poll} what="users" />` : html`<${ClientTable} rows=${rowsOf(poll.data)} what="user" keyOf=${(each) => each.name} columns=${[{ key: "name", label: "User", view: (each) => html`<a href=${href(["users", each.name])}>${shown(each.name)}</a>${isFixed(each) && html` <${Badge} title="The settings file names it: it is changed there">settings<//>`}` }, { key: "tags", label: "Tags", view: (each) => (tagsOf(each).length ? tagsOf(each).map((tag) => html`<${Badge} key=${tag} tone=${tag === "administrator" ? "accent" : "plain"}>${shown(tag)}<//> `) : html`<span class="muted">none: only AMQP</span>`) }, { key: "password_hash", label: "Password", sort: false, view: (each) => (each.password_hash === "" ? "none" : "set") }]} />`}
    ${isAdding && html`<${Dialog} title="Add a user" onClose=${() => setAdding(false)}><${UserForm} onDone=${() => { setAdding(false); poll.reload(); }} /><//>`}`;
}

const RIGHTS = [["configure", "declare and delete"], ["write", "publish, bind"], ["read", "consume, get, bind from"]];

/** `of`: the permission that is changed, or null for another one. */
function PermissionForm({ user, of, onDone }) {
  const [vhost, setVhost] = useState(of?.vhost ?? "/");
  const [rights, setRights] = useState({ configure: of?.configure ?? ".*", write: of?.write ?? ".*", read: of?.read ?? ".*" });
  const [error, setError] = useState("");
  async function onSubmit() {
    setError("");
    try {
      await put(path`/permissions/${vhost}/${user}`, rights);
      tell("The permission is set.");
      onDone();
    } catch (failure) {
      setError(failure.message);
    }
  }
  return html`<${Form} onSubmit=${onSubmit} submit="Set" error=${error}><div class="columns"><${VhostField} value=${vhost} onChange=${setVhost} />${RIGHTS.map(([right, meaning]) => html`<${Field} key=${right} label=${right} hint=${`${meaning}; empty: nothing`}><input class="mono" value=${rights[right]} spellcheck="false" onInput=${(event) => setRights({ ...rights, [right]: event.target.value })} /><//>`)}</div><//>`;
}

function TopicForm({ user, of, onDone }) {
  const [vhost, setVhost] = useState(of?.vhost ?? "/");
  const [rights, setRights] = useState({ exchange: of?.exchange ?? "amq.topic", write: of?.write ?? ".*", read: of?.read ?? ".*" });
  const [error, setError] = useState("");
  async function onSubmit() {
    setError("");
    try {
      await put(path`/topic-permissions/${vhost}/${user}`, rights);
      tell("The topic permission is set.");
      onDone();
    } catch (failure) {
      setError(failure.message);
    }
  }
  return html`<${Form} onSubmit=${onSubmit} submit="Set" error=${error}><div class="columns"><${VhostField} value=${vhost} onChange=${setVhost} />${["exchange", "write", "read"].map((right) => html`<${Field} key=${right} label=${right}><input class="mono" value=${rights[right]} spellcheck="false" onInput=${(event) => setRights({ ...rights, [right]: event.target.value })} /><//>`)}</div><//>`;
}

export function UserPage({ name }) {
  useTitle(`User ${shown(name)}`);
  const [isEditing, setEditing] = useState(false);
  const [permission, setPermission] = useState(null);
  const [topic, setTopic] = useState(null);
  const poll = usePoll(path`/users/${name}`, { every: 15_000 });
  const permissions = usePoll(path`/users/${name}/permissions`, { every: 15_000 });
  const topics = usePoll(path`/users/${name}/topic-permissions`, { every: 15_000 });
  const user = poll.data;
  if (!user) return html`<${PageHead} kind="User" title=${shown(name)} /><${Waiting} poll=${poll} what="user" />`;
  async function onDelete() {
    if (await confirm({ title: "Delete the user", text: `Delete user ${shown(name)}? Its connections are closed.`, action: "Delete", phrase: name }) && await attempt(() => del(path`/users/${name}`), `User ${shown(name)} is deleted.`)) go(["users"]);
  }
  async function onClear(kind, each, poll) {
    if (await confirm({ title: "Take the permission away", text: `User ${shown(name)} may then do nothing in ${shown(each.vhost)} that it allowed.`, action: "Take away" }) && await attempt(() => del(path`/${kind}/${each.vhost}/${name}`), "Taken away.")) poll.reload();
  }
  const code = (key) => ({ key, label: key, view: (each) => html`<code>${shown(each[key]) || "(nothing)"}</code>` });
  const vhostColumn = { key: "vhost", label: "Virtual host", view: (each) => html`<a href=${href(["vhosts", each.vhost])}>${shown(each.vhost)}</a>` };
  return html`<${PageHead} kind="User" title=${shown(name)} badges=${tagsOf(user).map((tag) => html`<${Badge} key=${tag} tone="accent">${shown(tag)}<//>`)} actions=${!isFixed(user) && html`<button type="button" onClick=${() => setEditing(true)}>Edit …</button><button type="button" class="danger" onClick=${onDelete} disabled=${session.get()?.name === name}>Delete …</button>`} />
    ${isFixed(user) && html`<${Notice}>The settings file names this user, so its password, its tags and the permissions that they list are changed there. <${DocLink} page="administration#what-the-settings-name">Why<//><//>`}
    ${rowsOf(permissions.data).length === 0 && permissions.data && html`<${Notice} tone="warn">The user may not enter any virtual host.<//>`}
    <${Card} title="Permissions"><${ClientTable} rows=${rowsOf(permissions.data)} what="permission" caption="Permissions" keyOf=${(each) => each.vhost} columns=${[vhostColumn, code("configure"), code("write"), code("read"), { key: "do", label: "Change", sort: false, view: (each) => html`<span class="actions"><button type="button" class="small" onClick=${() => setPermission(each)}>Change</button><button type="button" class="small danger" onClick=${() => onClear("permissions", each, permissions)}>Take away</button></span>` }]} /><${PermissionForm} key=${permission?.vhost} user=${name} of=${permission} onDone=${permissions.reload} /><//>
    <${Card} title="Topic permissions"><${ClientTable} rows=${rowsOf(topics.data)} what="topic permission" caption="Topic permissions" keyOf=${(each) => `${each.vhost} ${each.exchange}`} emptyText="None: routing keys are not checked" columns=${[vhostColumn, code("exchange"), code("write"), code("read"), { key: "do", label: "Change", sort: false, view: (each) => html`<span class="actions"><button type="button" class="small" onClick=${() => setTopic(each)}>Change</button><button type="button" class="small danger" onClick=${() => onClear("topic-permissions", each, topics)}>Take away</button></span>` }]} /><${TopicForm} key=${topic && `${topic.vhost} ${topic.exchange}`} user=${name} of=${topic} onDone=${topics.reload} /><//>
    <${Limits} title="Limits" base=${path`/user-limits/${name}`} limits=${[["max-connections", "Most connections"], ["max-channels", "Most channels"]]} />
    <${Card} title="Facts"><${Facts} items=${[["Password", user.password_hash === "" ? "none: it cannot log in with one" : user.hashing_algorithm ?? "set"], ["Set by", isFixed(user) ? "the settings file" : "an operator"]]} /><//>
    ${isEditing && html`<${Dialog} title=${`Edit ${shown(name)}`} onClose=${() => setEditing(false)}><${UserForm} of=${user} onDone=${() => { setEditing(false); poll.reload(); }} /><//>`}`;
}
