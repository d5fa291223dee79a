// Sort and filter tables, and draw the curve of a run on a click. User text is inserted as text, never as HTML.
"use strict";

const SVG = "http://www.w3.org/2000/svg";
const data = document.getElementById("curves");
const curves = data ? JSON.parse(data.textContent) : {};

function element(name, attributes, text) {
  const created = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) created.setAttribute(key, value);
  if (text !== undefined) created.textContent = text;
  return created;
}

function cellKey(row, column) {
  const text = (row.cells[column]?.textContent ?? "").trim();
  const number = Number.parseFloat(text);
  return /^[-+]?[\d.]/.test(text) && !Number.isNaN(number) ? [0, number, text] : [text === "" ? 2 : 1, 0, text];
}

function compare(left, right) {
  if (left[0] !== right[0]) return left[0] - right[0];
  return left[1] - right[1] || left[2].localeCompare(right[2], "en", { numeric: true });
}

function close(table) {
  for (const opened of table.querySelectorAll("tr.opened")) opened.remove();
  for (const button of table.querySelectorAll("button.run")) button.setAttribute("aria-expanded", "false");
}

function sortable(table) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      close(table);
      const rows = [...table.tBodies[0].rows].map((row) => [cellKey(row, column), row]);
      rows.sort(([left], [right]) => {
        if (left[0] === 2 || right[0] === 2) return left[0] - right[0]; // empty cells stay last
        return down ? compare(right, left) : compare(left, right);
      });
      table.tBodies[0].append(...rows.map(([, row]) => row));
    });
  });
}

function filterable(table) {
  const box = document.createElement("label");
  box.className = "filter";
  const input = document.createElement("input");
  input.type = "search";
  input.placeholder = "words in a row, such as: post nonfinite";
  const count = document.createElement("output");
  box.append("Filter", input, count);
  const rows = [...table.tBodies[0].rows];
  input.addEventListener("input", () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    close(table);
    let kept = 0;
    for (const row of rows) {
      const text = [...row.cells].map((cell) => cell.textContent.toLowerCase()).join(" ");
      row.hidden = !words.every((word) => text.includes(word));
      kept += !row.hidden;
    }
    count.textContent = words.length ? `${kept} of ${rows.length} rows` : "";
  });
  table.parentElement.before(box);
}

function scaled(values, from, to) {
  const low = Math.min(...values);
  const high = Math.max(...values);
  const logarithmic = low > 0 && high / low > 100;
  const of = logarithmic ? Math.log10 : (value) => value;
  const span = of(high) - of(low) || 1;
  return { low, high, logarithmic, at: (value) => from + ((of(value) - of(low)) / span) * (to - from) };
}

function number(value) {
  const size = Math.abs(value);
  return size !== 0 && (size >= 1e4 || size < 1e-2) ? value.toExponential(1) : String(Number(value.toPrecision(4)));
}

function path(points, x, y) {
  let drawn = "";
  let pen = "M";
  for (const [step, loss] of points) {
    if (loss === null) {
      pen = "M";
      continue;
    }
    drawn += `${pen}${x(step).toFixed(1)} ${y(loss).toFixed(1)}`;
    pen = "L";
  }
  return drawn;
}

function picture(run) {
  const width = 720;
  const height = 300;
  const [left, right, top, bottom] = [64, width - 90, 12, height - 40];
  const losses = [...run.train, ...run.val].map(([, loss]) => loss).filter((loss) => loss !== null);
  const guides = Object.entries(run.guides);
  const y = scaled([...losses, ...guides.map(([, loss]) => loss)], bottom, top);
  const x = scaled([0, Math.max(1, run.steps)], left, right);
  const svg = element("svg", { viewBox: `0 0 ${width} ${height}`, role: "img" });
  svg.append(element("title", {}, `Losses by step of ${run.id}`));
  svg.append(element("path", { class: "axis", d: `M${left} ${top}V${bottom}H${right}` }));
  for (const value of new Set([y.low, y.high])) {
    svg.append(element("text", { x: left - 6, y: y.at(value) + 4, "text-anchor": "end" }, number(value)));
  }
  for (const value of [0, run.steps]) {
    svg.append(element("text", { x: x.at(value), y: bottom + 16, "text-anchor": "middle" }, String(value)));
  }
  const unit = `loss in nats${y.logarithmic ? ", logarithmic" : ""}`;
  svg.append(element("text", { x: left, y: height - 6 }, `step; ${unit}; thin: training, dots: validation`));
  for (const [name, loss] of guides) {
    svg.append(element("path", { class: "guide", d: `M${left} ${y.at(loss)}H${right}` }));
    svg.append(element("text", { x: right + 6, y: y.at(loss) + 4 }, `${name} ${number(loss)}`));
  }
  svg.append(element("path", { class: "train", d: path(run.train, x.at, y.at) }));
  svg.append(element("path", { class: "val", d: path(run.val, x.at, y.at) }));
  for (const [step, loss] of run.val) {
    if (loss !== null) svg.append(element("circle", { class: "val", cx: x.at(step), cy: y.at(loss), r: 3 }));
  }
  if (run.death !== null) {
    const at = x.at(run.death);
    svg.append(element("path", { class: "death", d: `M${at - 6} ${top}l12 12m0 -12l-12 12` }));
    const late = at > width / 2;
    const label = { x: late ? at - 10 : at + 10, y: top + 11, "text-anchor": late ? "end" : "start" };
    svg.append(element("text", label, `non-finite at step ${run.death}`));
  }
  return svg;
}

function openable(button) {
  const run = curves[button.dataset.run];
  button.setAttribute("aria-expanded", "false");
  button.addEventListener("click", () => {
    const row = button.closest("tr");
    const opened = button.getAttribute("aria-expanded") === "true";
    button.setAttribute("aria-expanded", String(!opened));
    if (opened) {
      row.nextElementSibling.remove();
      return;
    }
    const below = document.createElement("tr");
    below.className = "opened";
    const cell = below.insertCell();
    cell.className = "curve";
    cell.colSpan = row.cells.length;
    const story = document.createElement("p");
    story.textContent = run.story;
    cell.append(story, picture({ ...run, id: button.dataset.run }));
    row.after(below);
  });
}

for (const table of document.querySelectorAll("table.sorts")) {
  sortable(table);
  filterable(table);
}
for (const button of document.querySelectorAll("button.run")) openable(button);
