"use strict";
const all = (selector, within = document) => [...within.querySelectorAll(selector)];

// Update texts like "2 hours ago" while the page is open.
function tellAges() {
  for (const time of all("time[data-ago]")) {
    const minutes = Math.floor((Date.now() - Date.parse(time.dateTime)) / 60000);
    const [n, unit] = minutes < 120 ? [minutes, "minute"] : minutes < 2880 ? [Math.floor(minutes / 60), "hour"]
      : [Math.floor(minutes / 1440), "day"];
    time.textContent = n < 1 ? "just now" : `${n.toLocaleString("en")} ${unit}${n === 1 ? "" : "s"} ago`;
    time.title = time.dateTime;
  }
}
tellAges();
setInterval(tellAges, 30000);

// Open the collapsed section that contains the target of a link.
function openTarget() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const details = target?.closest("details");
  if (details) {
    details.open = true;
    target.scrollIntoView();
    if (target === details) target.querySelector("summary").focus({preventScroll: true});
  }
}
addEventListener("hashchange", openTarget);
openTarget();

// Keep the state of the table in the URL, so that the view can be shared.
const address = new URLSearchParams(location.search);
function remember(values) {
  for (const [name, value] of Object.entries(values)) value ? address.set(name, value) : address.delete(name);
  const query = address.toString();
  try {
    history.replaceState(null, "", (query ? `?${query}` : location.pathname) + location.hash);
  } catch { /* the URL of a local file cannot be changed */ }
  for (const link of all(".windows a, .when a")) {
    const to = new URL(link.href);
    for (const [name, value] of Object.entries(values)) value ? to.searchParams.set(name, value) : to.searchParams.delete(name);
    link.href = to.href;
  }
}

// Show the label of a chart's point on mouse, touch and keyboard input.
for (const chart of all("svg[data-told]")) {
  const told = JSON.parse(chart.dataset.told), last = told.length - 1;
  const rule = chart.appendChild(document.createElementNS(chart.namespaceURI, "line"));
  const dot = chart.appendChild(document.createElementNS(chart.namespaceURI, "circle"));
  const words = document.createElement("p");
  words.className = "told";
  words.textContent = "\u00a0";
  chart.after(words);
  rule.setAttribute("class", "rule");
  dot.setAttribute("class", "dot");
  let at = last;
  function show(point) {
    at = Math.max(0, Math.min(last, point));
    const [x, y, said] = told[at];
    for (const [name, value] of Object.entries({x1: x, x2: x, y1: "0", y2: "100%"})) rule.setAttribute(name, value);
    for (const [name, value] of Object.entries({cx: x, cy: y || "0%", r: y ? "4" : "0"})) dot.setAttribute(name, value);
    words.textContent = said;
    chart.setAttribute("aria-valuenow", at);
    chart.setAttribute("aria-valuetext", said);
  }
  for (const [name, value] of Object.entries({role: "slider", tabindex: "0", "aria-valuemin": "0", "aria-valuemax": last,
    "aria-valuenow": last, "aria-valuetext": told[last][2]})) chart.setAttribute(name, value);
  function nearest(event) {
    const box = chart.getBoundingClientRect(), share = 100 * (event.clientX - box.left) / box.width;
    const far = told.map(([x]) => Math.abs(parseFloat(x) - share));
    show(far.indexOf(Math.min(...far)));
  }
  chart.addEventListener("pointermove", nearest);
  chart.addEventListener("pointerdown", nearest);
  chart.addEventListener("focus", () => show(at));
  const steps = {ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -7, PageUp: 7, Home: -Infinity, End: Infinity};
  chart.addEventListener("keydown", (event) => {
    if (!(event.key in steps)) return;
    event.preventDefault();
    show(at + steps[event.key]);
  });
}

const table = document.getElementById("agents");
if (table) {
  const PAGE = 25, PRINTED = 30;
  const body = table.tBodies[0], rows = [...body.rows], tools = all(".tools[hidden]");
  const byId = (id) => document.getElementById(id);
  const names = ["search", "verdict", "category", "alerts", "red_flags", "new", "factors", "fold"];
  const inputs = Object.fromEntries(names.map((name) => [name, byId(name)]).filter(([, input]) => input));
  const {search, verdict, category, fold} = inputs;
  const headings = [...table.tHead.rows[0].cells];
  const column = Object.fromEntries(headings.map((cell, at) => [cell.dataset.sort, at]));
  const number = (text) => {
    const found = text.replace(/[,\s]/g, "").replace("−", "-").match(/^[+-]?\d+(\.\d+)?/);
    return found ? Number(found[0]) : NaN;
  };
  const collator = new Intl.Collator("en", {numeric: true, sensitivity: "base"});
  // Verdicts and categories are sorted in the order of their filter's options.
  const orders = {[column.verdict]: verdict, [column.category]: category};
  const valueOf = (input) => input.type === "checkbox" ? (input.checked ? "yes" : "") : input.value;
  let page = 0;

  // Rows without a value are last in both directions.
  function sortBy(at, heading, falling) {
    const numeric = heading.classList.contains("n"), order = orders[at] && [...orders[at].options].map((option) => option.value);
    const sign = falling ? -1 : 1;
    const keyed = rows.map((row, place) => {
      const cell = row.classList.contains("fold") && at > 1 ? null : row.cells[at];
      const text = cell ? (cell.querySelector("bdi") ?? cell).textContent.trim() : "";
      const name = row.dataset[heading.dataset.sort];
      return {row, place, key: order ? (name ? order.indexOf(name) : -1) : numeric ? number(text) : text};
    });
    const lacks = ({key}) => order ? key < 0 : numeric ? Number.isNaN(key) : key === "";
    keyed.sort((a, b) => lacks(a) - lacks(b)
      || (lacks(a) ? 0 : sign * (order || numeric ? a.key - b.key : collator.compare(a.key, b.key))) || a.place - b.place);
    body.append(...keyed.map(({row}) => row));
    all("th[aria-sort]", table.tHead).forEach((other) => other.removeAttribute("aria-sort"));
    heading.setAttribute("aria-sort", falling ? "descending" : "ascending");
    remember({sort: (falling ? "-" : "") + heading.dataset.sort});
  }
  headings.forEach((heading, at) => {
    if (!heading.dataset.sort) return;
    const button = document.createElement("button");
    button.type = "button";
    button.append(...heading.childNodes);
    heading.append(button);
    button.addEventListener("click", () => {
      sortBy(at, heading, heading.getAttribute("aria-sort") === "ascending");
      page = 0;
      changed();
    });
  });

  const MARKS = {alerts: ".sev:not(.red_flag)", red_flags: ".sev.red_flag"};
  const marked = (row, name, wanted) => !wanted || (MARKS[name]
    ? all(MARKS[name], row).some((mark) => wanted === "any" || mark.dataset.name === wanted) : row.dataset[name] === wanted);
  const agentRows = () => [...body.rows].filter((row) => !row.classList.contains("fold"));
  function chosen() {
    const wanted = search.value.trim().toLocaleLowerCase(), since = inputs.new.value;
    return agentRows().filter((row) => row.cells[0].textContent.toLocaleLowerCase().includes(wanted)
      && (!since || (row.dataset.new ?? "") > since)
      && ["category", "verdict", "alerts", "red_flags"].every((name) => marked(row, name, inputs[name].value)));
  }
  function filter(printed = false) {
    const members = {}, found = chosen(), agents = agentRows().length;
    table.classList.add("scripted");
    table.classList.toggle("factors", inputs.factors.checked);
    for (const row of body.rows) row.hidden = true;
    for (const row of found) {
      if (fold?.checked && row.dataset.f !== undefined) members[row.dataset.f] = true;
    }
    const shown = found.filter((row) => !(fold?.checked && row.dataset.f !== undefined));
    page = Math.max(0, Math.min(page, Math.ceil(shown.length / PAGE) - 1));
    const first = printed ? 0 : page * PAGE, last = Math.min(first + (printed ? PRINTED : PAGE), shown.length);
    for (const row of shown.slice(first, last)) row.hidden = false;
    for (const row of rows) if (row.classList.contains("fold")) row.hidden = !members[row.dataset.f];
    for (const link of all("[data-choose]"))
      link.toggleAttribute("aria-current", inputs[link.dataset.choose]?.value === link.dataset.value);
    byId("clear").hidden = !Object.values(inputs).some(valueOf);
    const ofAll = `${agents} ${agents === 1 ? "agent" : "agents"}`;
    byId("shown").value = found.length ? `${found.length} of ${ofAll}` : `None of ${ofAll} matches`;
    byId("pages").hidden = shown.length <= PAGE;
    byId("range").textContent = `${first + 1} to ${last} of ${shown.length}`;
    byId("printed").textContent = `Rows ${byId("range").textContent}; the fleet has ${ofAll}.`;
    byId("earlier").disabled = page === 0;
    byId("later").disabled = last === shown.length;
  }
  function changed() {
    filter();
    remember({...Object.fromEntries(Object.entries(inputs).map(([name, input]) => [name, valueOf(input)])), page: page ? String(page + 1) : ""});
  }
  function put(input, value) {
    if (input.type === "checkbox") input.checked = value === "yes";
    else if (input.tagName !== "SELECT" || [...input.options].some((option) => option.value === value)) input.value = value;
  }
  for (const [name, input] of Object.entries(inputs)) {
    put(input, address.get(name) ?? "");
    input.addEventListener("input", () => { page = 0; changed(); });
  }
  for (const [id, step] of [["earlier", -1], ["later", 1]]) byId(id).addEventListener("click", () => {
    page += step;
    changed();
    byId("table").scrollIntoView();
  });
  // A click on a card or a kind of alert sets the filter.
  for (const link of all("[data-choose]")) link.addEventListener("click", (event) => {
    event.preventDefault();
    for (const [name, input] of Object.entries(inputs)) put(input, name === link.dataset.choose ? link.dataset.value : "");
    page = 0;
    changed();
    byId("table").scrollIntoView();
  });
  byId("clear").addEventListener("click", () => {
    for (const input of Object.values(inputs)) put(input, "");
    page = 0;
    changed();
  });
  tools.forEach((one) => { one.hidden = false; });
  page = Number(address.get("page") || 1) - 1 || 0;
  const sort = address.get("sort") ?? "", heading = headings.find((cell) =>
    cell.dataset.sort && cell.dataset.sort === sort.replace(/^-/, ""));
  if (heading) sortBy(heading.cellIndex, heading, sort.startsWith("-"));
  filter();
  remember(Object.fromEntries(["sort", "page", ...names].filter((name) => address.has(name)).map((name) => [name, address.get(name)])));
  // Browsers repeat the headings on each printed page only if they have no buttons.
  const headingButtons = headings.map((heading) => [heading, heading.querySelector("button")]).filter(([, button]) => button);
  addEventListener("beforeprint", () => {
    filter(true);
    for (const [heading, button] of headingButtons) heading.replaceChildren(...button.childNodes);
  });
  addEventListener("afterprint", () => {
    filter();
    for (const [heading, button] of headingButtons) {
      button.append(...heading.childNodes);
      heading.append(button);
    }
  });
}
