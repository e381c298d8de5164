
"use strict";
(() => {
  const LONG = 500, SHOWN = 1000;
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const element = (name, text) => Object.assign(document.createElement(name), { textContent: text });

  // Cases that are packed: a block is unpacked once, and a case is shown below "Opened cases".
  const blocks = new Map();
  async function unpack(number) {
    if (!blocks.has(number)) {
      const text = document.getElementById("block-" + number).textContent;
      const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
      const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
      blocks.set(number, new Map(JSON.parse(await new Response(stream).text())));
    }
    return blocks.get(number);
  }

  async function open(row, anchor) {
    const part = row.closest(".suite").querySelector(".opened");
    let markup;
    try {
      markup = (await unpack(row.dataset.block)).get(anchor);
    } catch {
      part.hidden = false;
      part.append(element("p", "This browser cannot unpack cases; a newer one can."));
      return null;
    }
    // The markup was escaped where it was made, and the policy of this page lets no script of it run.
    const parsed = new DOMParser().parseFromString(markup, "text/html").body.firstElementChild;
    row.querySelector("[id]").removeAttribute("id");
    part.hidden = false;
    part.append(parsed);
    return parsed;
  }

  const rowOf = new Map();
  for (const row of all(".lines tr[data-block]")) rowOf.set(row.querySelector("[id]").id, row);

  function reveal(target) {
    for (let place = target; place; place = place.parentElement) {
      if (place.tagName === "DETAILS") place.open = true;
    }
    const heading = target.matches(".case") ? target.querySelector("summary") : target;
    if (heading !== target || target.matches(".who")) {
      if (heading.tagName !== "SUMMARY") heading.tabIndex = -1;
      heading.focus({ preventScroll: true });
    }
    target.scrollIntoView();
  }

  async function follow() {
    const raw = location.hash.slice(1);
    if (!raw) return;
    let decoded = raw;
    try { decoded = decodeURIComponent(raw); } catch { /* a lone % is no code */ }
    const anchors = [raw, encodeURI(decoded)].flatMap((each) => [each, each.replace(/&step=\d+$/, "")]);
    for (const anchor of anchors) {
      const row = rowOf.get(anchor);
      if (row && await open(row, anchor)) rowOf.delete(anchor);
    }
    const target = document.getElementById(raw) || document.getElementById(encodeURI(decoded))
      || document.getElementById(anchors[1]);
    if (target) reveal(target);
  }
  addEventListener("hashchange", follow);
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='#']");
    if (link && link.hash === location.hash) follow();
  });

  // The table of cases: find, show, sort.
  function prepare(section) {
    const table = section.querySelector(".lines");
    const body = table.tBodies[0];
    const rows = [...body.rows];
    const bar = section.querySelector(".filter");
    const [input, select, output] = ["input", "select", "output"].map((name) => bar.querySelector(name));
    const heads = [...table.tHead.rows[0].cells];
    const changeAt = heads.findIndex((head) => head.textContent === "Change");
    const isLong = rows.length > LONG && rows.some((row) => row.className !== "quiet");
    const kinds = new Set();
    for (const row of rows) kinds.add(row.cells[1].className).add(changeAt > 0 ? row.cells[changeAt].textContent : "");
    const words = ["needs attention", ...[...kinds].filter(Boolean)];
    select.append(new Option("all cases", ""), ...words.map((word) => new Option(word, word)));
    if (isLong) select.value = "needs attention";

    let most = SHOWN;
    const more = element("button", "");
    more.type = "button";
    more.addEventListener("click", () => { most = Infinity; update(); });
    const fits = (row, kind) => !kind || (kind === "needs attention" ? row.className !== "quiet"
      : row.cells[1].className === kind || (changeAt > 0 && row.cells[changeAt].textContent === kind));

    function update() {
      const sought = input.value.trim().toLowerCase();
      const kind = select.value;
      let found = 0;
      for (const row of rows) {
        const shows = fits(row, kind) && (!sought || row.textContent.toLowerCase().includes(sought));
        found += shows;
        row.hidden = !shows || found > most;
      }
      table.classList.remove("brief-list");
      say(found);
    }

    function say(found) {
      output.textContent = `${found.toLocaleString("en")} of ${rows.length.toLocaleString("en")} cases`;
      more.textContent = `Show all ${found.toLocaleString("en")}`;
      more.hidden = found <= most;
    }

    heads.forEach((head, column) => {
      const button = element("button", head.textContent);
      button.type = "button";
      head.replaceChildren(button);
      button.addEventListener("click", () => sort(head, column));
    });

    function sort(head, column) {
      const down = head.getAttribute("aria-sort") === "ascending";
      for (const each of heads) each.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const keyed = rows.map((row) => {
        const cell = row.cells[column];
        return [cell.dataset.value === undefined ? cell.textContent : Number(cell.dataset.value), row];
      });
      const order = new Intl.Collator("en", { numeric: true }).compare;
      const compare = (one, other) => typeof one === "number" ? one - other : order(one, other);
      keyed.sort((one, other) => (down ? -1 : 1) * compare(one[0], other[0]));
      keyed.forEach(([, row], place) => { rows[place] = row; });
      body.append(...rows);
      update();
    }

    let waiting;
    input.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(() => { most = SHOWN; update(); }, 120); });
    select.addEventListener("change", () => { most = SHOWN; update(); });
    section.querySelector(".lines").after(more);
    bar.hidden = false;
    if (isLong) {
      say(rows.filter((row) => row.className !== "quiet").length);
      if (rows.length - body.querySelectorAll(".quiet").length > most) update();
    } else say(rows.length);
  }
  all(".cases").forEach(prepare);

  // Keys, while no field is being written in.
  document.querySelector(".keys").hidden = false;
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const writing = event.target.closest("input, select, textarea");
    if (event.key === "Escape") return close(writing);
    if (writing) return;
    if (event.key === "/") {
      event.preventDefault();
      document.querySelector(".filter input").focus();
    } else if (event.key === "n" || event.key === "p") {
      step(event.key === "n" ? 1 : -1);
    }
  });

  function step(by) {
    const cases = all(".case");
    const now = cases.indexOf(document.activeElement.closest(".case"));
    const next = cases[now < 0 ? (by > 0 ? 0 : cases.length - 1) : now + by];
    if (next) reveal(next);
  }

  function close(writing) {
    if (writing) return writing.blur();
    const opened = document.activeElement.closest(".case");
    if (opened) {
      opened.open = false;
      opened.querySelector("summary").focus();
    }
  }

  addEventListener("beforeprint", () => { for (const each of all(".case")) each.open = true; });
  follow();
  // A browser goes to the place of an address once all is loaded, and takes the focus away.
  addEventListener("load", () => setTimeout(follow));
})();
