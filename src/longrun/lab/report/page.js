// The data, the state of the page, and helpers. Text of the data is only set as text nodes.
const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);
const COLOURS = 6; // --c0 ... --c5 in the style sheet
const DASHES = ["", "7 3", "2 3", "9 3 2 3"];
const MANY = 10; // settings of an environment up to which all are shown at first

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null) node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

function el(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

function svg(tag, attributes, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

// So many significant digits, without trailing zeros, and thousands in groups.
function number(value, digits = 4) {
  if (value === null || value === undefined) return "–";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e7 || size < 1e-4) {
    return value.toExponential(digits - 1).replace(/\.?0+e/, "e").replace("-", "−");
  }
  const fixed = value.toFixed(Math.max(0, digits - 1 - Math.floor(Math.log10(size))));
  const short = fixed.includes(".") ? fixed.replace(/\.?0+$/, "") : fixed;
  const [whole, part] = short.replace("-", "−").split(".");
  const grouped = whole.length > 5 ? whole.replace(/\B(?=(\d{3})+$)/g, ",") : whole;
  return part ? `${grouped}.${part}` : grouped;
}

const steps = (value) => value.toLocaleString("en-GB");

function intervalText(low, high) {
  return low === null || high === null ? "" : `[${number(low, 3)}, ${number(high, 3)}]`;
}

const environments = [...new Set(data.settings.map((s) => s.env))];
const names = [...new Set(data.settings.map((s) => s.name))];
data.settings.forEach((setting, index) => {
  // A setting looks the same in every environment.
  const place = names.indexOf(setting.name);
  setting.index = index;
  setting.colour = `var(--c${place % COLOURS})`;
  setting.dash = DASHES[Math.floor(place / COLOURS) % DASHES.length];
});

const state = {
  env: environments[0],
  metric: data.metrics[0] || { key: "", label: "nothing was measured yet", kind: "evaluation" },
  off: new Set(), // settings that are not ticked
  refused: new Map(data.filters.map((filter) => [filter.name, new Set()])), // values, by option
  mean: true,
  // Fewer than five seeds have no interval, and many intervals cover each other.
  band: data.settings.some((s) => s.seeds.length > 4) && names.length <= 6,
  seeds: data.settings.length <= 4,
  zoom: null,
};

const reward = (s) => (s.final.average_reward ? s.final.average_reward.mean : -Infinity);
for (const env of environments) {
  const mine = data.settings.filter((s) => s.env === env).sort((a, b) => reward(b) - reward(a));
  mine.slice(MANY).forEach((s) => state.off.add(s.index));
}

// A filter ignores settings without its option (PPO has no value_constraint).
function passes(setting) {
  return data.filters.every(({ name }) => !(name in setting.choices)
    || !state.refused.get(name).has(setting.choices[name]));
}
const listed = () => data.settings.filter((s) => s.env === state.env && passes(s));
const visible = () => listed().filter((s) => !state.off.has(s.index));
const curveOf = (setting) => setting[state.metric.kind].curves[state.metric.key];
const stepsOf = (setting) => setting[state.metric.kind].steps;
const meanOf = (curve) => curve.mean || curve.seeds[0];

function swatch(setting) {
  const line = svg("line", { x1: 1, x2: 29, y1: 5, y2: 5, "stroke-width": 2.6 });
  if (setting.dash) line.setAttribute("stroke-dasharray", setting.dash);
  line.style.stroke = setting.colour;
  return svg("svg", { class: "swatch", viewBox: "0 0 30 10", "aria-hidden": "true" }, line);
}

function render() {
  drawLegend();
  drawChart();
  drawTable();
}

function renderUnzoomed() {
  state.zoom = null;
  render();
}
