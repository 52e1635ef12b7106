// Controls above the chart, and the settings beside it.
function tick(text, checked, change) {
  const box = el("input", { type: "checkbox", onchange: () => change(box.checked) });
  box.checked = checked;
  return el("label", {}, box, text);
}

function ticks(title, attributes, boxes) {
  const row = el("div", { class: "ticks" }, ...boxes);
  return el("fieldset", attributes, el("legend", {}, title), row);
}

// A list to choose from; choices are [group, [[value, text], ...]], the group may be "".
function chooser(id, caption, choices, chosen, change) {
  const select = el("select", { id, onchange: () => change(select.value) });
  for (const [group, items] of choices) {
    const target = group ? select.appendChild(el("optgroup", { label: group })) : select;
    for (const [value, text] of items) target.append(el("option", { value }, text));
  }
  select.value = chosen;
  return el("label", { class: "field" }, el("span", { class: "caption" }, caption), select);
}

function filterControl({ name, values }) {
  const refused = state.refused.get(name);
  if (values.length > 8) { // too many to tick: one of them, or any
    const items = [["", "any"], ...values.map((value, k) => [String(k), value])];
    return chooser(`filter-${name}`, name, [["", items]], "", (choice) => {
      refused.clear();
      if (choice) values.filter((_, k) => String(k) !== choice).forEach((v) => refused.add(v));
      renderUnzoomed();
    });
  }
  const boxes = values.map((value) => tick(value, true, (on) => {
    if (on) refused.delete(value); else refused.add(value);
    renderUnzoomed();
  }));
  return ticks(name, { "data-filter": name }, boxes);
}

function metricControl() {
  const titles = { evaluation: "evaluation of the deterministic policy", training: "training" };
  const choices = Object.entries(titles).map(([kind, title]) => {
    const mine = data.metrics.filter((metric) => metric.kind === kind);
    return [title, mine.map((metric) => [metric.key, metric.label])];
  }).filter(([, items]) => items.length);
  return chooser("metric", "metric", choices, state.metric.key, (key) => {
    state.metric = data.metrics.find((metric) => metric.key === key);
    renderUnzoomed();
  });
}

function environmentControl() {
  const items = environments.map((env) => [env, env]);
  return chooser("environment", "environment", [["", items]], state.env, (env) => {
    state.env = env;
    renderUnzoomed();
  });
}

function lookControl() {
  const looks = { mean: "mean", band: "nominal 95 % interval of the mean", seeds: "single seeds" };
  const boxes = Object.entries(looks).map(([key, text]) => tick(text, state[key], (on) => {
    state[key] = on;
    drawChart();
  }));
  return ticks("show", { id: "looks" }, boxes);
}

function buildControls() {
  const choice = environments.length > 1 ? [environmentControl()] : [];
  const filters = data.filters.map(filterControl);
  byId("controls").append(metricControl(), ...choice, lookControl(), ...filters);
  if (!data.settings.length) byId("curves").hidden = byId("comparison").hidden = true;
}

function legendItem(setting) {
  const box = el("input", { type: "checkbox", "data-setting": setting.index });
  box.checked = !state.off.has(setting.index);
  const name = el("span", {}, setting.name);
  const label = el("label", { title: setting.label }, box, swatch(setting), name);
  const item = el("li", { class: box.checked ? "" : "off" }, label);
  box.addEventListener("change", () => {
    if (box.checked) state.off.delete(setting.index); else state.off.add(setting.index);
    item.classList.toggle("off", !box.checked);
    drawChart();
    drawCount();
  });
  item.addEventListener("pointerenter", () => highlight(setting.index));
  item.addEventListener("pointerleave", () => highlight(null));
  return item;
}

function drawLegend() {
  const settings = listed();
  const every = (text, change) => el("button", { type: "button", onclick: () => {
    settings.forEach((setting) => change(setting.index));
    render();
  } }, text);
  const all = every("all", (index) => state.off.delete(index));
  const none = every("none", (index) => state.off.add(index));
  const count = el("span", { id: "count", class: "hint" });
  byId("legend").replaceChildren(el("div", { class: "buttons" }, all, none, count),
    el("ul", { "aria-label": "settings" }, ...settings.map(legendItem)));
  drawCount();
}

function drawCount() {
  const all = data.settings.filter((setting) => setting.env === state.env);
  byId("count").textContent = `${visible().length} of ${all.length} shown`;
}
