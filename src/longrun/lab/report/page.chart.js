// The chart: scales, axes and paths.
const plot = byId("plot");
const chart = { frame: null, scales: null, hover: null, drag: null };

function niceTicks(low, high, count) {
  const raw = (high - low) / Math.max(count, 1);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((each) => each >= raw * 0.999);
  const first = Math.ceil(low / step - 1e-9), last = Math.floor(high / step + 1e-9);
  return Array.from({ length: Math.max(last - first + 1, 0) }, (_, k) => (first + k) * step);
}

function shortSteps(value) {
  for (const [size, letter] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (Math.abs(value) >= size) return number(value / size) + letter;
  }
  return number(value);
}

// The scale fits all seeds, not the intervals: those of few seeds may extend far beyond them.
function fullRange(settings) {
  let [x0, x1, y0, y1] = [Infinity, -Infinity, Infinity, -Infinity];
  for (const setting of settings) {
    const at = stepsOf(setting);
    for (const seed of curveOf(setting).seeds) {
      seed.forEach((y, k) => {
        if (y === null) return;
        [x0, x1] = [Math.min(x0, at[k]), Math.max(x1, at[k])];
        [y0, y1] = [Math.min(y0, y), Math.max(y1, y)];
      });
    }
  }
  for (const limit of limitsOf(settings)) [y0, y1] = [Math.min(y0, limit), Math.max(y1, limit)];
  if (x0 > x1) return { x: [0, 1], y: [0, 1] };
  const margin = 0.08 * (y1 - y0) || Math.abs(y0) * 0.1 || 1;
  return { x: x0 === x1 ? [x0 * 0.5, x0 * 1.5 || 1] : [x0, x1], y: [y0 - margin, y1 + margin] };
}

// The limits on the cost that is shown, if it is one.
function limitsOf(settings) {
  if (state.metric.kind !== "evaluation") return [];
  const found = settings.map((setting) => setting.limits[state.metric.key]);
  return [...new Set(found.filter((limit) => limit !== undefined))];
}

function makeScales({ x: [x0, x1], y: [y0, y1] }, { left, right, top, bottom }) {
  return {
    x: (value) => left + (value - x0) / (x1 - x0) * (right - left),
    y: (value) => bottom - (value - y0) / (y1 - y0) * (bottom - top),
    fromX: (px) => x0 + (px - left) / (right - left) * (x1 - x0),
    fromY: (px) => y0 + (bottom - px) / (bottom - top) * (y1 - y0),
  };
}

// A line with gaps where a value is missing.
function linePath(at, values, scales) {
  let path = "", pen = "M";
  values.forEach((y, k) => {
    if (y === null) { pen = "M"; return; }
    path += `${pen}${scales.x(at[k]).toFixed(1)} ${scales.y(y).toFixed(1)}`;
    pen = "L";
  });
  return path;
}

function bandPath(at, low, high, scales) {
  const there = at.map((_, k) => k).filter((k) => low[k] !== null && high[k] !== null);
  const corner = (k, y) => `${scales.x(at[k]).toFixed(1)} ${scales.y(y[k]).toFixed(1)}`;
  const up = there.map((k) => corner(k, high)), down = there.reverse().map((k) => corner(k, low));
  return there.length > 1 ? `M${[...up, ...down].join("L")}Z` : "";
}

function series(setting, scales) {
  const curve = curveOf(setting), at = stepsOf(setting);
  const group = svg("g", { class: "series", "data-setting": setting.index });
  const add = (kind, path) => {
    const node = svg("path", { class: kind, d: path });
    if (kind === "band") node.style.fill = setting.colour; else node.style.stroke = setting.colour;
    if (kind === "mean" && setting.dash) node.setAttribute("stroke-dasharray", setting.dash);
    group.append(node);
  };
  if (state.band && curve.low) add("band", bandPath(at, curve.low, curve.high, scales));
  if (state.seeds) curve.seeds.forEach((seed) => add("seed", linePath(at, seed, scales)));
  if (state.mean) add("mean", linePath(at, meanOf(curve), scales));
  if (at.length === 1) { // a single point has no line; a single seed is the mean
    const point = (kind, r) => ([y]) => (
      y === null ? [] : [dot(setting, scales.x(at[0]), scales.y(y), { class: kind, r })]);
    if (state.mean) group.append(...point("mean-point", 7)(meanOf(curve)));
    if (state.seeds && !(state.mean && curve.seeds.length === 1)) {
      group.append(...curve.seeds.flatMap(point("seed-point", 4)));
    }
  }
  return group;
}

function dot(setting, cx, cy, more = {}) {
  const node = svg("circle", { cx, cy, r: 4, ...more });
  node.style.fill = setting.colour;
  return node;
}

function axes(scales, { left, right, bottom }, xTicks, yTicks) {
  const line = (kind, x1, y1, x2, y2) => svg("line", { class: kind, x1, y1, x2, y2 });
  const text = (words, x, y, anchor, more = {}) => svg(
    "text", { x, y, "text-anchor": anchor, ...more }, words);
  const title = { class: "axis-label" };
  return [
    ...yTicks.flatMap((tick) => {
      const y = scales.y(tick);
      return [line("gridline", left, y, right, y), text(number(tick), left - 8, y + 4, "end")];
    }),
    ...xTicks.flatMap((tick) => {
      const x = scales.x(tick), anchor = x > right - 12 ? "end" : "middle";
      const mark = line("axis", x, bottom, x, bottom + 5);
      return [mark, text(shortSteps(tick), x, bottom + 19, anchor)];
    }),
    line("axis", left, bottom, right, bottom),
    text(state.metric.label, 2, 15, "start", { ...title, id: "y-label" }),
    text("environment steps", right, bottom + 38, "end", title),
  ];
}

function drawChart() {
  const settings = visible().filter(curveOf);
  const width = Math.max(plot.clientWidth, 260), height = Math.max(plot.clientHeight, 220);
  const range = state.zoom || fullRange(settings);
  const xTicks = niceTicks(...range.x, width / 110), yTicks = niceTicks(...range.y, height / 70);
  const left = 18 + 7 * Math.max(...yTicks.map((tick) => number(tick).length), 2);
  const box = { left, right: width - 10, top: 28, bottom: height - 46 };
  const scales = makeScales(range, box);
  const inside = { x: left, y: box.top - 4, width: box.right - left + 3, height: box.bottom - 24 };
  const lines = svg("g", { id: "series", "clip-path": "url(#inside)" });
  lines.append(...settings.map((setting) => series(setting, scales)));
  for (const limit of limitsOf(settings)) {
    const ends = { x1: left, x2: box.right, y1: scales.y(limit), y2: scales.y(limit) };
    lines.append(svg("line", { class: "limit", ...ends }));
    const place = { x: box.right - 4, y: scales.y(limit) - 5, "text-anchor": "end" };
    lines.append(svg("text", { class: "limit-label", ...place }, `limit ${number(limit)}`));
  }
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" },
    svg("defs", {}, svg("clipPath", { id: "inside" }, svg("rect", inside))),
    ...axes(scales, box, xTicks, yTicks), lines, svg("g", { id: "over" }));
  if (!settings.length) {
    const why = visible().length ? "no setting shown has this metric" : "no setting is ticked";
    const middle = { x: (left + box.right) / 2, y: height / 2, "text-anchor": "middle" };
    picture.append(svg("text", { class: "empty", ...middle }, why));
  }
  Object.assign(chart, { frame: box, scales, hover: null });
  plot.replaceChildren(picture);
  const where = `over environment steps on ${state.env}, ${settings.length} settings`;
  plot.setAttribute("aria-label", `${state.metric.label} ${where}`);
  drawHint(settings);
}

function drawHint(settings) {
  const training = state.metric.kind === "training";
  const point = settings.some((setting) => stepsOf(setting).length === 1);
  const sizes = point ? "Large points: mean, small ones: seeds. " : "";
  const thinned = training ? "Each point is the mean of a block of iterations. " : "";
  const keys = " Keys: ← → to read, + − to zoom, Esc to go back.";
  const words = `${sizes}${thinned}Drag to zoom, double-click to go back.`;
  const parts = [words, el("span", { class: "keys" }, keys)];
  const reset = () => el("button", { type: "button", onclick: unzoom }, "reset zoom");
  byId("hint").replaceChildren(...parts, ...(state.zoom ? [" ", reset()] : []));
}

function highlight(index) {
  for (const group of plot.querySelectorAll(".series")) {
    group.classList.toggle("dim", index !== null && group.dataset.setting !== String(index));
  }
}
