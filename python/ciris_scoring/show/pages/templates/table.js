"use strict";
const byId = (id) => document.getElementById(id);

// Open the collapsed section that contains the target of a link.
function openTarget() {
  const target = byId(decodeURIComponent(location.hash.slice(1)));
  const details = target?.closest("details");
  if (details) {
    details.open = true;
    target.scrollIntoView();
    if (target === details) target.querySelector("summary").focus({preventScroll: true});
  }
}
addEventListener("hashchange", openTarget);
openTarget();

// Filter and sort the table of agents.
const table = byId("agents");
if (table) {
  const [body] = table.tBodies, rows = [...body.rows], headings = [...table.tHead.rows[0].cells];
  const selects = {category: byId("category"), verdict: byId("verdict")}, search = byId("search");
  function filter() {
    const wanted = search.value.trim().toLowerCase();
    for (const row of rows) {
      row.hidden = !row.textContent.toLowerCase().includes(wanted)
        || Object.entries(selects).some(([name, {value}]) => value && row.dataset[name] !== value);
    }
    byId("shown").value = `${rows.filter((row) => !row.hidden).length} of ${rows.length} agents`;
  }
  // Category and verdict have the order of their filter. Rows without a value are last in both directions.
  function keyOf(row, {cellIndex, dataset, classList}) {
    const select = selects[dataset.sort], text = row.cells[cellIndex].textContent.trim();
    if (select) return [...select.options].findIndex(({value}) => value && value === row.dataset[dataset.sort]);
    const number = parseFloat(text.replace(/,/g, "").replace("−", "-"));
    return !classList.contains("n") ? text : Number.isNaN(number) ? -1 : number + 10;
  }
  function sortBy(heading) {
    const sign = heading.getAttribute("aria-sort") === "ascending" ? -1 : 1;
    const {compare} = new Intl.Collator("en", {numeric: true});
    const keyed = rows.map((row) => [keyOf(row, heading), row]);
    keyed.sort(([a], [b]) => (a === -1) - (b === -1) || sign * (typeof a === "string" ? compare(a, b) : a - b));
    body.append(...keyed.map(([, row]) => row));
    headings.forEach((other) => other.removeAttribute("aria-sort"));
    heading.setAttribute("aria-sort", sign < 0 ? "descending" : "ascending");
  }
  for (const heading of headings.filter(({dataset}) => dataset.sort)) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...heading.childNodes);
    heading.append(button);
    button.addEventListener("click", () => sortBy(heading));
  }
  for (const input of [search, ...Object.values(selects)]) input.addEventListener("input", filter);
  document.querySelectorAll(".tools[hidden]").forEach((tools) => { tools.hidden = false; });
  filter();
}
