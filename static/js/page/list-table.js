// @ts-check
// <list-table>: a table that is sorted by its headers, filtered as one types, and whose rows are
// clicked as a whole. Live parts may change its rows: order and filter hold for what comes.
//
//   <list-table id="models" filter="Filter models">…<table>…</list-table>
//
// A header with data-choose="All boxes" puts a list of its column's values beside the filter.
// A header with data-sort sorts (data-sort="down": the first click sorts downwards); a cell's value is its
// data-value, else its text. A row is opened by its link with data-row, and moved between by the arrow keys.

import { compare, matches } from "./list-order.js";
import { all, around } from "./parts.js";

class ListTable extends HTMLElement {
  /** @type {{column: number, way: 1 | -1} | null} */
  sorted = null;

  connectedCallback() {
    if (!this.observer) {
      this.addEventListener("click", (event) => this.open(event));
      this.addEventListener("keydown", (event) => this.move(event));
      this.observer = new MutationObserver(() => this.arrange());
    }
    if (this.getAttribute("filter") && !this.querySelector(":scope > .list-filter")) this.addFilter();
    this.prepare();
    this.arrange();
  }

  disconnectedCallback() {
    this.observer?.disconnect();
  }

  /** None while the list is empty: a live part may bring one. */
  get table() {
    return this.querySelector("table");
  }

  /** Headers become buttons: once, and again where a live part has brought them anew. */
  prepare() {
    for (const head of all(this, "thead th[data-sort]", HTMLTableCellElement)) {
      if (head.querySelector("button")) continue;
      const button = document.createElement("button");
      button.type = "button";
      button.className = "sort";
      button.append(...head.childNodes);
      button.addEventListener("click", () => this.sort(head));
      head.append(button);
    }
  }

  addFilter() {
    const label = this.getAttribute("filter") ?? "";
    const input = Object.assign(document.createElement("input"), { type: "search", placeholder: label, ariaLabel: label });
    const count = document.createElement("p");
    count.className = "quiet";
    count.role = "status";
    input.addEventListener("input", () => this.arrange());
    input.addEventListener("keydown", (event) => {
      if (event.key !== "ArrowDown") return;
      event.preventDefault();
      this.links()[0]?.focus();
    });
    const line = document.createElement("div");
    line.className = "list-filter";
    line.append(input, count);
    this.prepend(line);
  }

  /**
   * The list of a column's values beside the filter, and whether a row is of the chosen one.
   * @returns {(row: HTMLTableRowElement) => boolean}
   */
  offer() {
    const line = this.querySelector(":scope > .list-filter");
    const head = this.querySelector("thead th[data-choose]");
    const before = line?.querySelector("select");
    if (!line || !(head instanceof HTMLTableCellElement)) {
      before?.remove();
      return () => true;
    }
    const column = head.cellIndex;
    const value = (/** @type {HTMLTableRowElement} */ row) => row.cells[column]?.textContent.trim() ?? "";
    const rows = [...(this.table?.tBodies ?? [])].flatMap((body) => [...body.rows]);
    const values = [...new Set(rows.map(value))].sort();
    const select = before ?? Object.assign(document.createElement("select"), { ariaLabel: head.textContent.trim() });
    if (!before) {
      select.addEventListener("change", () => this.arrange());
      line.querySelector("input")?.after(select);
    }
    const chosen = values.includes(select.value) ? select.value : "";
    if ([...select.options].slice(1).map((option) => option.value).join("\n") !== values.join("\n")) {
      select.replaceChildren(new Option(head.dataset.choose, ""), ...values.map((each) => new Option(each, each)));
      select.value = chosen;
    }
    return (row) => chosen === "" || value(row) === chosen;
  }

  /** @param {HTMLTableCellElement} head */
  sort(head) {
    const first = head.dataset.sort === "down" ? -1 : 1;
    const column = head.cellIndex;
    this.sorted = { column, way: this.sorted?.column === column ? /** @type {1 | -1} */ (-this.sorted.way) : first };
    this.arrange();
  }

  arrange() {
    this.observer?.disconnect();
    this.prepare();
    const chosen = this.offer();
    const { sorted } = this;
    for (const head of all(this, "thead th[data-sort]", HTMLTableCellElement)) {
      if (sorted?.column !== head.cellIndex) head.removeAttribute("aria-sort");
      else head.setAttribute("aria-sort", sorted.way > 0 ? "ascending" : "descending");
    }
    const typed = this.querySelector(".list-filter input");
    const wanted = typed instanceof HTMLInputElement ? typed.value.trim() : "";
    let [shown, count] = [0, 0];
    for (const body of this.table?.tBodies ?? []) {
      const rows = [...body.rows];
      if (sorted) this.order(body, rows, sorted.column, sorted.way);
      for (const row of rows) row.hidden = (wanted !== "" && !matches(row.textContent, wanted)) || !chosen(row);
      const left = rows.filter((row) => !row.hidden).length;
      body.hidden = rows.length > 0 && left === 0;
      shown += left;
      count += rows.length;
    }
    const said = this.querySelector(".list-filter > p");
    if (said) said.textContent = shown === count && wanted === "" ? "" : shown ? `${shown} of ${count}` : "Nothing matches.";
    this.toggleAttribute("data-none", count > 0 && shown === 0);
    this.toggleAttribute("data-empty", count === 0);
    this.observer?.observe(this, { childList: true, subtree: true, characterData: true });
  }

  /**
   * Moves only where the order differs: a row that is moved loses the focus in it.
   * @param {HTMLTableSectionElement} body
   * @param {HTMLTableRowElement[]} rows
   * @param {number} column
   * @param {1 | -1} way
   */
  order(body, rows, column, way) {
    const value = (/** @type {HTMLTableRowElement} */ row) => {
      const cell = row.cells[column];
      return cell?.dataset.value ?? cell?.textContent.trim() ?? "";
    };
    const wanted = rows.toSorted((one, other) => compare(value(one), value(other), way));
    if (wanted.every((row, at) => row === rows[at])) return;
    const focused = document.activeElement;
    body.append(...wanted);
    if (focused instanceof HTMLElement && body.contains(focused)) focused.focus();
  }

  links() {
    return all(this, "tbody tr:not([hidden]) a[data-row]", HTMLAnchorElement);
  }

  /** @param {MouseEvent} event */
  open(event) {
    if (around(event, "a, button, input, select, label, summary, [popover]", HTMLElement)) return;
    const link = around(event, "tbody tr", HTMLTableRowElement)?.querySelector("a[data-row]");
    if (!(link instanceof HTMLAnchorElement) || getSelection()?.isCollapsed === false) return;
    if (event.ctrlKey || event.metaKey) open(link.href, "_blank", "noopener");
    else link.click();
  }

  /** @param {KeyboardEvent} event */
  move(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const links = this.links();
    const at = links.findIndex((link) => link === event.target);
    if (!step || at < 0) return;
    event.preventDefault();
    const next = links[at + step] ?? (step < 0 ? this.querySelector(".list-filter input") : null);
    if (next instanceof HTMLElement) next.focus();
  }
}

customElements.define("list-table", ListTable);
