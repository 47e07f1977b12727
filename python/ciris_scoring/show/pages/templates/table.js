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
  for (const input of [search, category, status, alerting, fold]) input?.addEventListener("input", filter);
  tools.hidden = false;
  filter();
}
