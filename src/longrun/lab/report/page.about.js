// What is drawn once: facts, pictures, problems, the configuration. Then the first rendering.
function tableOf(titles, rows, attributes = {}) {
  const head = el("tr", {}, ...titles.map((title) => el("th", { scope: "col" }, title)));
  const body = rows.map((cells) => el("tr", {}, ...cells));
  const parts = [el("thead", {}, head), el("tbody", {}, ...body)];
  return el("div", { class: "scroll" }, el("table", attributes, ...parts));
}

function drawFacts() {
  const fact = ([name, text]) => el("div", {}, el("dt", {}, name), el("dd", {}, text));
  byId("facts").append(...data.facts.map(fact));
}

function filmOf(film) {
  const policy = film.setting ? `: ${film.setting}, seed ${film.seed}` : "";
  const title = film.env + policy;
  if (film.note) return el("p", { class: "note" }, `${title}. No pictures: ${film.note}`);
  const size = { width: 320, height: 240 };
  const calm = "(prefers-reduced-motion: reduce), print";
  const moving = el("picture", {}, el("source", { media: calm, srcset: film.stills[0].image }),
    el("img", { src: film.animation, alt: `Animation of ${title}`, ...size }));
  const still = ({ image, caption }) => el(
    "li", {}, el("img", { src: image, alt: "", ...size }), caption);
  const caption = el("figcaption", {}, el("b", {}, title), ` · ${film.caption}`);
  return el("figure", { class: "film" }, caption, moving, el("ol", {}, ...film.stills.map(still)));
}

function drawFrames() {
  byId("frames").hidden = !data.frames.length;
  byId("frames").append(...data.frames.map(filmOf));
}

function drawProblems() {
  if (!data.problems.length) return;
  byId("problems").hidden = false;
  const rows = data.problems.map(({ run, state: how, text }) => [
    el("td", {}, run), el("td", { class: how }, how), el("td", {}, text)]);
  byId("problems").append(tableOf(["run", "state", "details"], rows));
}

function optionList(options) {
  const entry = (option) => {
    const text = option.values.join(", ");
    const usual = option.default === null ? "not the same in all settings" : option.default;
    const value = option.changed ? el("mark", { title: `default: ${usual}` }, text) : text;
    return el("div", {}, el("dt", {}, option.label), el("dd", {}, value));
  };
  return el("dl", { class: "options" }, ...options.map(entry));
}

function differences(options) {
  const value = ({ choices, changed }, name) => {
    if (!(name in choices)) return "–";
    return changed.includes(name) ? el("mark", {}, choices[name]) : choices[name];
  };
  const settings = names.map((name) => data.settings.find((s) => s.name === name));
  const rows = settings.map((s) => [
    el("td", {}, who(s)), ...options.map(({ name }) => el("td", {}, value(s, name)))]);
  return tableOf(["setting", ...options.map((o) => o.label)], rows, { id: "differing" });
}

function runDetails(run) {
  const summary = el("summary", {}, run.name), config = () => el("pre", {}, run.config);
  if (data.runs.length === 1) return el("details", { open: true }, summary, config());
  const details = el("details", {}, summary);
  details.addEventListener("toggle", () => { // filled when opened, since there may be hundreds
    if (details.children.length === 1) details.append(config());
  });
  return details;
}

function drawConfiguration() {
  const add = (...nodes) => byId("configuration").append(...nodes);
  const differ = data.options.filter((option) => option.differs);
  const shared = data.options.filter((option) => !option.differs);
  if (differ.length) add(el("h3", {}, "What settings differ in"), differences(differ));
  if (shared.length) {
    add(el("h3", {}, differ.length ? "What they share" : "Options"), optionList(shared));
  }
  if (data.options.length) {
    add(el("p", { class: "hint" }, "Marked: not the default of the algorithm and its preset."));
  }
  if (data.command) {
    add(el("h3", {}, "Command"), el("pre", { class: "wrap" }, data.command));
  }
  const what = data.runs.length === 1 ? "the run" : `the ${data.runs.length} runs`;
  const summary = el("summary", {}, `Everything that made ${what} (config.json)`);
  if (data.runs.length) {
    add(el("details", { id: "runs" }, summary, ...data.runs.map(runDetails)));
  }
}

drawFacts();
buildControls();
render();
drawFrames();
drawProblems();
drawConfiguration();
