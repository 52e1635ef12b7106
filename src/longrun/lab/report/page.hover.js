// Reading numbers from the chart and zooming into it, with pointer and keys.
function nearest(at, value) {
  let best = 0;
  at.forEach((each, k) => { if (Math.abs(each - value) < Math.abs(at[best] - value)) best = k; });
  return best;
}

// Steps of any curve within the chart, in order.
function shownSteps() {
  const within = (px) => px >= chart.frame.left - 1 && px <= chart.frame.right + 1;
  const all = new Set(visible().filter(curveOf).flatMap(stepsOf));
  return [...all].filter((step) => within(chart.scales.x(step))).sort((a, b) => a - b);
}

// Of each curve the point that is nearest to the step, highest first.
function readings(step) {
  const found = visible().filter(curveOf).map((setting) => {
    const at = stepsOf(setting), curve = curveOf(setting), k = nearest(at, step);
    const ends = curve.low ? intervalText(curve.low[k], curve.high[k]) : "";
    return { setting, at: at[k], value: meanOf(curve)[k], ends };
  });
  return found.filter((r) => r.value !== null).sort((a, b) => b.value - a.value);
}

function tipRow(reading, step) {
  const { setting, at, value, ends } = reading;
  const name = el("span", {}, setting.name + (at === step ? "" : ` at ${steps(at)}`));
  const figure = el("b", {}, number(value, 5), " ", el("span", { class: "interval" }, ends));
  return el("div", {}, swatch(setting), name, figure);
}

function showHover(step) {
  hideHover();
  if (step === undefined) return;
  chart.hover = step;
  const { top, bottom, right } = chart.frame, x = chart.scales.x(step), found = readings(step);
  const over = plot.querySelector("#over");
  over.append(svg("line", { class: "cursor", x1: x, x2: x, y1: top, y2: bottom }));
  for (const { setting, at, value } of found) {
    const y = chart.scales.y(value);
    if (y >= top - 5 && y <= bottom + 5) over.append(dot(setting, chart.scales.x(at), y));
  }
  const more = found.length > 12 ? `and ${found.length - 12} more` : "";
  const rows = found.slice(0, 12).map((reading) => tipRow(reading, step));
  const tip = el("div", { class: "tip" }, el("strong", {}, `${steps(step)} steps`), ...rows, more);
  plot.append(tip);
  const fits = x + 14 + tip.offsetWidth < right + 10;
  tip.style.left = `${Math.max(0, fits ? x + 14 : x - 14 - tip.offsetWidth)}px`;
}

function hideHover() {
  chart.hover = null;
  plot.querySelector(".tip")?.remove();
  plot.querySelector("#over")?.replaceChildren();
}

function hoverAt(px) {
  const all = shownSteps();
  showHover(all[nearest(all, chart.scales.fromX(px))]);
}

// Where a pointer is, within the chart's frame.
function place(event) {
  const area = plot.getBoundingClientRect(), { left, right, top, bottom } = chart.frame;
  const within = (value, low, high) => Math.min(Math.max(value, low), high);
  const [x, y] = [event.clientX - area.left, event.clientY - area.top];
  return { x: within(x, left, right), y: within(y, top, bottom) };
}

// The rectangle of a drag, or all of an axis along which it is short.
function brushed(from, to) {
  const { left, right, top, bottom } = chart.frame;
  const x = [Math.min(from.x, to.x), Math.max(from.x, to.x)];
  const y = [Math.min(from.y, to.y), Math.max(from.y, to.y)];
  const wide = x[1] - x[0] > 12, tall = y[1] - y[0] > 24;
  return { x: wide ? x : [left, right], y: tall ? y : [top, bottom], any: wide || tall };
}

function zoomTo(x, y) {
  state.zoom = { x, y };
  drawChart();
}

function unzoom() {
  state.zoom = null;
  drawChart();
}

// Half or twice as many steps around the one under the cursor, within the range of the data.
function zoomBy(factor) {
  const { left, right, top, bottom } = chart.frame, { fromX, fromY } = chart.scales;
  const middle = chart.hover ?? fromX((left + right) / 2);
  const half = (fromX(right) - fromX(left)) / 2 * factor;
  const all = fullRange(visible().filter(curveOf)).x;
  if (2 * half >= all[1] - all[0]) unzoom();
  else zoomTo([middle - half, middle + half], [fromY(bottom), fromY(top)]);
}

plot.addEventListener("pointerdown", (event) => {
  if (event.button !== 0) return;
  chart.drag = place(event);
  plot.setPointerCapture(event.pointerId);
});
plot.addEventListener("pointermove", (event) => {
  const here = place(event);
  if (!chart.drag) { hoverAt(here.x); return; }
  hideHover();
  const { x, y, any } = brushed(chart.drag, here);
  const size = { x: x[0], y: y[0], width: x[1] - x[0], height: y[1] - y[0] };
  if (any) plot.querySelector("#over").append(svg("rect", { class: "brush", ...size }));
});
plot.addEventListener("pointerup", (event) => {
  if (!chart.drag) return;
  const here = place(event), { x, y, any } = brushed(chart.drag, here);
  const { fromX, fromY } = chart.scales;
  chart.drag = null;
  if (any) zoomTo(x.map(fromX), [fromY(y[1]), fromY(y[0])]);
  else hoverAt(here.x); // a finger does not hover
});
plot.addEventListener("pointercancel", () => { chart.drag = null; hideHover(); });
plot.addEventListener("pointerleave", () => { if (!chart.drag) hideHover(); });
plot.addEventListener("dblclick", unzoom);
plot.addEventListener("blur", hideHover);
plot.addEventListener("keydown", (event) => {
  const all = shownSteps(), last = all.length - 1;
  const here = chart.hover === null ? -1 : nearest(all, chart.hover);
  const left = here < 0 ? last : Math.max(here - 1, 0), right = Math.min(here + 1, last);
  const moves = { ArrowLeft: left, ArrowRight: right, Home: 0, End: last };
  if (event.key in moves && all.length) {
    showHover(all[moves[event.key]]);
    const best = readings(chart.hover).slice(0, 5);
    const words = best.map(({ setting, value }) => `${setting.name}: ${number(value, 5)}`);
    byId("live").textContent = `${steps(chart.hover)} steps. ${words.join(". ")}`;
  } else if (event.key === "+") zoomBy(0.5);
  else if (event.key === "-") zoomBy(2);
  else if (event.key === "Escape") unzoom();
  else return;
  event.preventDefault();
});
new ResizeObserver(() => drawChart()).observe(plot);
