// What the page can do: send a burst, inject a fault, remove one. Answers and refusals are said in words.

import { h, update } from "./dom.js";
import { ask } from "./poll.js";
import { badge, count, ms, none, plural, table, troubles } from "./words.js";

const byId = (id) => document.getElementById(id);
const OK = 200;

/** Fields of a fault: label, kind of input, its limits, and what goes in at first. */
const OPTIONS = {
  endpoint: { label: "Endpoint", choices: (state) => [["*", "every endpoint"], ...state.endpoints.map(({ name }) => [name, name])] },
  delay_ms: { label: "Delay, ms", number: true, min: "0", max: "60000", step: "any", value: "500" },
  share: { label: "Share of calls, above 0 to 1", number: true, min: "0.001", max: "1", step: "any", value: "1" },
  count: { label: "Calls until it ends, 0: never", number: true, min: "0", max: "1000000", step: "1", value: "0" },
  seconds: { label: "Seconds forward; below 0: back", number: true, min: "-2678400", max: "2678400", step: "any", value: "3600" },
  bucket: { label: "Bucket, * for every one", value: "*" },
  prefix: { label: "Prefix of keys", value: "", optional: true },
  table: { label: "Table, * for every one", value: "*" },
  operation: { label: "Operation, as PutObject; * for every one", value: "*" },
};

/** Wire the forms; `refresh` asks for the document again, `current` gives the last one. */
export function wire({ refresh, current }) {
  byId("traffic-form").addEventListener("submit", (event) => during(event, byId("traffic-said"), "Sending", async (form) => {
    update(byId("traffic-result"));
    const [requests, clients] = [Number(form.get("requests")), Number(form.get("clients"))];
    const result = await ask("traffic", { target: form.get("target"), requests, clients });
    update(byId("traffic-result"), answersOf(result));
    refresh();
    return summaryOf(result);
  }));
  byId("fault-form").addEventListener("submit", (event) => during(event, byId("fault-said"), "Injecting", async (form) => {
    const { added } = await ask("faults", faultOf(form, current()));
    refresh();
    return `Injected ${added}. Remove it above.`;
  }));
  byId("fault-kind").addEventListener("change", () => showOptions(current()));
  byId("faults-body").addEventListener("click", (event) => {
    const button = event.target.closest("button[data-name]");
    if (button) remove(button, refresh);
  });
}

/** Bring choices and the list of faults up to date. */
export function showForms(state) {
  choose(byId("traffic-target"), state.targets.map(({ id, label }) => [id, label]));
  choose(byId("fault-kind"), state.fault_kinds.map(({ kind }) => [kind, kind]));
  showOptions(state);
  update(byId("faults-body"), faultsOf(state));
}

function choose(select, choices) {
  const before = select.value;
  update(select, choices.map(([value, text]) => h("option", { value, "data-key": value }, text)));
  if (before && choices.some(([value]) => value === before)) select.value = before;
}

function showOptions(state) {
  const kind = kindOf(state, byId("fault-kind").value);
  byId("fault-does").textContent = kind ? `It ${kind.does}.` : "";
  const fields = (kind?.takes ?? []).map((name) => [name, OPTIONS[name]]).filter(([, option]) => option);
  update(byId("fault-options"), fields.map(([name, option]) => field(name, option)));
  for (const [name, option] of fields) {
    if (option.choices) choose(byId(`fault-${name}`), option.choices(state));
  }
}

const kindOf = (state, kind) => state?.fault_kinds.find((one) => one.kind === kind);

function field(name, option) {
  const id = `fault-${name}`;
  const control = option.choices
    ? h("select", { id, name, "data-key": id })
    : h("input", {
        id, name, "data-key": id, type: option.number ? "number" : "text", inputmode: option.number ? "decimal" : null,
        min: option.min, max: option.max, step: option.step, value: option.value, required: !option.optional,
        maxlength: option.number ? null : "200",
      });
  return h("div", { class: "field", "data-key": `field ${name}` }, h("label", { for: id }, option.label), control);
}

function faultOf(form, state) {
  const takes = kindOf(state, form.get("kind"))?.takes ?? [];
  const given = takes.filter((name) => OPTIONS[name] && form.get(name) !== null)
    .map((name) => [name, OPTIONS[name].number ? Number(form.get(name)) : form.get(name)]);
  return { kind: form.get("kind"), ...Object.fromEntries(given) };
}

function faultsOf(state) {
  if (state.faults.length === 0) return [...troubles(state, "faults"), none(state, "faults", "No fault is in force.")];
  return [...troubles(state, "faults"), h("ul", { class: "items" }, state.faults.map((fault) =>
    h("li", { class: "card row", "data-key": `fault ${fault.name}` },
      h("div", {}, badge("fault", "warn", fault.kind), h("p", { class: "quiet name" }, fault.text)),
      h("button", { type: "button", class: "plain", "data-name": fault.name, "aria-label": `Remove the fault ${fault.name}` }, "Remove"))))];
}

async function remove(button, refresh) {
  const said = byId("fault-said");
  try {
    const { removed } = await ask("faults/remove", { name: button.dataset.name });
    said.textContent = `Removed ${removed}.`;
    // the button goes with its fault: the keyboard goes on from the heading
    byId("faults-heading").focus();
  } catch (error) {
    said.textContent = `Not removed: ${error.message}`;
  }
  refresh();
}

async function during(event, said, word, act) {
  event.preventDefault();
  const form = event.target;
  if (form.dataset.busy) return;
  form.dataset.busy = "true";
  const button = form.querySelector("button[type=submit]");
  button.setAttribute("aria-disabled", "true");
  said.textContent = `${word}…`;
  try {
    said.textContent = await act(new FormData(form));
  } catch (error) {
    said.textContent = `Not done: ${error.message}`;
  } finally {
    delete form.dataset.busy;
    button.removeAttribute("aria-disabled");
  }
}

function summaryOf(result) {
  const good = result.rows.filter(({ status }) => status === OK).reduce((sum, row) => sum + row.count, 0);
  const left = result.unsent ? ` ${count(result.unsent)} were not sent in time.` : "";
  return `${count(good)} of ${plural(result.sent, "request")} answered 200, in ${result.elapsed_s.toFixed(1)} s.${left}`;
}

function answersOf(result) {
  const heads = [["Status"], ["Variant"], ["Count", "number"], ["p50 ms", "number"], ["p99 ms", "number"]];
  const rows = result.rows.map((row) =>
    [row.status === 0 ? "none" : `${row.status}`, row.variant || "–", count(row.count), ms(row.p50_ms), ms(row.p99_ms)]);
  return [
    table(`What came back from ${result.target}, as the client saw it`, heads, rows),
    result.notes.length === 0 ? null
      : h("ul", { class: "notes" }, result.notes.map((note) => h("li", {}, `${count(note.count)} × ${note.text}`))),
  ];
}
