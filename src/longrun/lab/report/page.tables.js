// The comparison of the settings.
const NOTE = "The score of a seed is the mean of its evaluations in the last 10 % of training."
  + " Mean over seeds with Student's nominal 95 % interval. IQM: the mean of the middle half of the"
  + " seeds. P: the probability that a seed beats one of the best setting; 0.5"
  + " means equal. Both with nominal 95 % intervals. In simulations intervals of five seeds cover"
  + " 81 to 95 % (mean), 88 to 96 % (IQM) and 92 to 100 % (P). Fewer than five seeds are shown"
  + " themselves, in parentheses, instead of an interval.";
const table = { column: "average_reward", descending: true };

// The content of a cell, and the value that it is sorted by.
function figure(setting, key) {
  const found = setting.final[key];
  if (!found) return { value: null, cell: ["–"] };
  // Not map(number): its second argument, the index, would be the number of digits.
  const scores = found.scores.map((score) => number(score));
  const seeds = scores.length > 1 ? `(seeds ${scores.join(", ")})` : "";
  const ends = found.low === null ? seeds : intervalText(found.low, found.high);
  return { value: found.mean, cell: [number(found.mean), el("span", { class: "interval" }, ends)] };
}

const plain = (value, text = String(value)) => ({ value, cell: [value === null ? "–" : text] });

function who(setting, more) {
  const name = el("span", {}, setting.name, more);
  return el("div", { class: "who", title: setting.label }, swatch(setting), name);
}

function nameCell(setting) {
  const words = limited ? "best within limits" : "best";
  const badge = setting.best ? el("span", { class: "badge" }, words) : null;
  return { value: setting.name, cell: [who(setting, badge)] };
}

// Settings with limits on costs: which limits, and how many of the seeds keep them.
const limited = data.settings.some((setting) => setting.kept !== null);
const costs = data.metrics.filter((each) => each.kind === "evaluation" && each.key.startsWith("cost_"));

function keptCell(setting) {
  if (setting.kept === null) return plain(null);
  const limits = Object.entries(setting.limits).map(
    ([key, limit]) => `${key.slice("cost_".length)} ≤ ${number(limit)}`);
  const what = el("span", { class: "interval" }, limits.join(", "));
  const share = setting.kept / setting.seeds.length;
  return { value: share, cell: [`${setting.kept} of ${setting.seeds.length}`, what] };
}

function score(key) {
  const metric = data.metrics.find((each) => each.key === key);
  return [key, metric ? metric.label : key, (s) => figure(s, key)];
}

const COLUMNS = [
  ["name", "setting", nameCell],
  ["env", "environment", (s) => plain(s.env)],
  ["seeds", "seeds", (s) => plain(s.seeds.length)],
  ["step", "steps", (s) => plain(s.step, s.step === null ? "" : steps(s.step))],
  score("average_reward"),
  ["forest", "", (s) => ({ value: null, cell: [forest(s)] })],
  score("episode_return"),
  score("episode_average_reward"),
  ...costs.map((each) => score(each.key)),
  ...(limited ? [["kept", "seeds that keep the limits", keptCell]] : []),
  ["iqm", "IQM of the average reward", (s) => figure(s, "iqm")],
  ["improvement", "P(beats the best)", (s) => figure(s, "improvement")],
];
const OPTIONAL = ["episode_return", "episode_average_reward", "iqm", "improvement"];

function isShown([key]) {
  if (key === "env") return environments.length > 1;
  return !OPTIONAL.includes(key) || data.settings.some((setting) => setting.final[key]);
}

// The ends of the line through a mean: its interval, or the worst and the best of few seeds.
function lineEnds(found) {
  if (found.low !== null) return [found.low, found.high];
  return [Math.min(...found.scores), Math.max(...found.scores)];
}

// Mean and interval of a setting beside those of the others in its environment.
function forest(setting) {
  const own = setting.final.average_reward;
  if (!own) return null;
  const mine = data.settings.filter((s) => s.env === setting.env && s.final.average_reward);
  const all = mine.flatMap((s) => lineEnds(s.final.average_reward));
  const low = Math.min(...all), high = Math.max(...all), [from, to] = lineEnds(own);
  const x = (value) => (high > low ? 5 + 110 * (value - low) / (high - low) : 60);
  const mark = svg("circle", { cx: x(own.mean), cy: 9, r: 4 });
  const line = svg("line", { x1: x(from), x2: x(to), y1: 9, y2: 9 });
  mark.style.fill = line.style.stroke = setting.colour;
  const zero = svg("line", { class: "zero", x1: x(0), x2: x(0), y1: 0, y2: 18 });
  const parts = low < 0 && high > 0 ? [zero, line, mark] : [line, mark];
  return svg("svg", { class: "forest", viewBox: "0 0 120 18", "aria-hidden": "true" }, ...parts);
}

function compare(a, b) {
  if (a === b) return 0;
  if (a === null) return 1; // missing values are last in either order
  if (b === null) return -1;
  const order = typeof a === "string" ? a.localeCompare(b, "en", { numeric: true }) : a - b;
  return table.descending ? -order : order;
}

function header([key, title]) {
  if (!title) return el("td", { "aria-hidden": "true" });
  const sorted = key === table.column;
  const button = el("button", { type: "button", "data-column": key, onclick: () => {
    table.descending = sorted ? !table.descending : !["name", "env"].includes(key);
    table.column = key;
    drawTable();
    byId("table").querySelector(`[data-column="${key}"]`).focus();
  } }, title);
  const order = table.descending ? "descending" : "ascending";
  return el("th", { scope: "col", "aria-sort": sorted ? order : null }, button);
}

function drawTable() {
  const columns = COLUMNS.filter(isShown);
  const read = COLUMNS.find(([key]) => key === table.column)[2];
  const order = data.settings.filter(passes).sort((a, b) => compare(read(a).value, read(b).value));
  if (table.column === "average_reward") { // rewards of different environments do not compare
    order.sort((a, b) => environments.indexOf(a.env) - environments.indexOf(b.env));
  }
  const words = ["name", "env"];
  const cell = (setting) => ([key, , value]) => el(
    "td", { class: words.includes(key) ? "" : "number" }, ...value(setting).cell);
  const rows = order.map((s) => el("tr", { "data-setting": s.index }, ...columns.map(cell(s))));
  const head = el("thead", {}, el("tr", {}, ...columns.map(header)));
  byId("table").replaceChildren(head, el("tbody", {}, ...rows));
  const left = data.settings.length - order.length;
  byId("table-note").textContent = NOTE + data.unsettled + (left ? ` ${left} filtered out.` : "");
}
