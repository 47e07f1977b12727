"use strict";
const all = (selector, within = document) => [...within.querySelectorAll(selector)];

// The time since the scores were made goes on while the page is open.
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

// A link to an agent opens its section.
function openTarget() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (target instanceof HTMLDetailsElement) {
    target.open = true;
    target.scrollIntoView();
    target.querySelector("summary").focus({preventScroll: true});
  }
}
addEventListener("hashchange", openTarget);
openTarget();
addEventListener("beforeprint", () => all("details").forEach((details) => { details.open = true; }));

// What is in the address of the page, so that a view can be sent.
const address = new URLSearchParams(location.search);
function remember(values) {
  for (const [name, value] of Object.entries(values)) value ? address.set(name, value) : address.delete(name);
  const query = address.toString();
  try {
    history.replaceState(null, "", (query ? `?${query}` : location.pathname) + location.hash);
  } catch { /* a file has no address that may change */ }
  for (const link of all(".hero .windows a, .ranges a")) {
    const to = new URL(link.href);
    for (const [name, value] of Object.entries(values)) value ? to.searchParams.set(name, value) : to.searchParams.delete(name);
    link.href = to.href;
  }
}

// A chart says what its points are to the mouse, a finger and the keyboard.
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
  const body = table.tBodies[0], rows = [...body.rows], tools = document.querySelector(".tools");
  const [search, category, status, alerting, fold] =
    ["search", "category", "status", "alerting", "fold"].map((id) => document.getElementById(id));
  const number = (text) => {
    const found = text.replace(/[,\s]/g, "").replace("−", "-").match(/^[+-]?\d+(\.\d+)?/);
    return found ? Number(found[0]) : NaN;
  };
  const collator = new Intl.Collator("en", {numeric: true, sensitivity: "base"});

  // What has no number, or nothing written, stays last in both directions.
  function sortBy(column, heading, falling) {
    const numeric = heading.classList.contains("n"), sign = falling ? -1 : 1;
    const keyed = rows.map((row, at) => {
      const cell = row.classList.contains("fold") && column > 2 ? null : row.cells[column];
      const text = cell ? cell.textContent.trim() : "";
      return {row, at, key: numeric ? number(text) : text};
    });
    const lacks = ({key}) => numeric ? Number.isNaN(key) : key === "";
    keyed.sort((a, b) => lacks(a) - lacks(b)
      || (lacks(a) ? 0 : sign * (numeric ? a.key - b.key : collator.compare(a.key, b.key))) || a.at - b.at);
    body.append(...keyed.map(({row}) => row));
    all("th[aria-sort]", table.tHead).forEach((other) => other.removeAttribute("aria-sort"));
    heading.setAttribute("aria-sort", falling ? "descending" : "ascending");
    remember({sort: (falling ? "-" : "") + heading.textContent.trim()});
  }
  [...table.tHead.rows[0].cells].forEach((heading, column) => {
    if ("nosort" in heading.dataset) return;
    const button = document.createElement("button");
    button.type = "button";
    button.append(...heading.childNodes);
    heading.append(button);
    button.addEventListener("click", () =>
      sortBy(column, heading, heading.getAttribute("aria-sort") === "ascending"));
  });

  const categoryColumn = 9;
  function filter() {
    const wanted = search.value.trim().toLocaleLowerCase(), members = {};
    let shown = 0, agents = 0;
    for (const row of rows) {
      if (row.classList.contains("fold")) continue;
      agents += 1;
      const holds = (!wanted || row.cells[0].textContent.toLocaleLowerCase().includes(wanted))
        && (!category.value || row.cells[categoryColumn].textContent.startsWith(category.value))
        && (!status.value || row.cells[categoryColumn + 1].textContent.startsWith(status.value))
        && (!alerting.checked || row.cells[row.cells.length - 1].textContent.trim() !== "");
      const folded = fold?.checked && row.dataset.f !== undefined;
      if (holds && folded) members[row.dataset.f] = true;
      row.hidden = !holds || folded;
      shown += holds;
    }
    for (const row of rows) if (row.classList.contains("fold")) row.hidden = !members[row.dataset.f];
    document.getElementById("shown").value = `${shown} of ${agents} agents`;
  }
  const inputs = [search, category, status, alerting, fold].filter(Boolean);
  const state = () => Object.fromEntries(inputs.map((input) =>
    [input.id, input.type === "checkbox" ? (input.checked ? "yes" : "") : input.value]));
  for (const input of inputs) {
    const value = address.get(input.id) ?? "";
    if (input.type === "checkbox") input.checked = value === "yes";
    else if (input.tagName !== "SELECT" || [...input.options].some((option) => option.value === value)) input.value = value;
    input.addEventListener("input", () => { filter(); remember(state()); });
  }
  tools.hidden = false;
  filter();
  const sort = address.get("sort") ?? "", heading = [...table.tHead.rows[0].cells].find((cell) =>
    cell.querySelector("button") && cell.textContent.trim() === sort.replace(/^-/, ""));
  if (heading) sortBy(heading.cellIndex, heading, sort.startsWith("-"));
  if (address.size) remember(state());
}
