// Charts that answer questions: switches, panels, words for the row under pointer or focus, and the
// table of what is shown. Vega-Lite draws; see charts/explorer.py for the form of the data.
(() => {
  "use strict";
  const MINUS = "\u2212";
  const NONE = "\u2013";

  const make = (tag, attributes = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  };
  const upper = (text) => text.slice(0, 1).toUpperCase() + text.slice(1);
  const withSign = (text) => (Number(text) === 0 ? text.replace("-", "") : text.replace("-", MINUS));
  const FORMATS = {
    signed: (value) => withSign(value.toFixed(2)),
    plain: (value) => withSign(value.toFixed(3)),
    count: (value) => value.toLocaleString("en"),
    percent: (value) => `${(100 * value).toFixed(1)}%`,
    p: (value) => {
      if (value < 0.001) return "< .001";
      let text = value.toFixed(3);
      for (let decimals = 4; decimals < 18 && Number(text) < 0.05 !== value < 0.05; decimals++) {
        text = value.toFixed(decimals);
      }
      return text.replace(/^0/, "");
    },
  };

  class Explorer {
    constructor(figure, chart) {
      this.figure = figure;
      this.chart = chart;
      this.byKey = new Map(chart.dimensions.map((each) => [each.key, each]));
      this.panel = chart.panels[0];
      this.reading = chart.readings[0];
      this.chosen = new Map(chart.dimensions.map((each) => [each.key, 0]));
      this.rows = this.decode();
      this.at = new Map(this.rows.map((row) => [row.place, row]));
      this.drawn = 0;
      this.build();
      this.update();
      let width = this.drawing.clientWidth;
      new ResizeObserver(() => {
        if (Math.abs(this.drawing.clientWidth - width) < 8) return;
        width = this.drawing.clientWidth;
        this.draw();
      }).observe(this.drawing);
    }

    decode() {
      const { dimensions, places, columns, words, numbers } = this.chart;
      const keys = numbers.flatMap((each) => (each.upto ? [each.key, each.upto] : [each.key]));
      return places.map((place, index) => {
        const row = { place, values: new Map() };
        let left = place;
        for (const dimension of [...dimensions].reverse()) {
          row.values.set(dimension.key, left % dimension.values.length);
          left = Math.floor(left / dimension.values.length);
        }
        for (const key of keys) row[key] = columns[key][index];
        for (const key of words) {
          const code = columns[key].codes[index];
          row[key] = code < 0 ? "" : columns[key].values[code];
        }
        return row;
      });
    }

    name(row, key) {
      return this.byKey.get(key).values[row.values.get(key)];
    }

    // What is told of a row in its picture and in the table of all: panel, axes and colours.
    laidOut() {
      return [...new Set([this.panel, ...this.chart.across])];
    }

    // Rows of a shared value have no panel of their own: they are drawn in every panel.
    isShared(row, key = this.panel) {
      return (this.chart.shared[key] || []).includes(this.name(row, key));
    }

    // The column that a name stands for under the chosen reading.
    column(name) {
      return (this.reading && this.reading.shown[name]) || name;
    }

    switched() {
      return this.chart.dimensions.filter(
        (each) => each.key !== this.panel && !this.chart.across.includes(each.key),
      );
    }

    build() {
      this.switches = make("div", { class: "switches" });
      this.drawing = make("div", { class: "drawing" });
      this.finding = make("ul", { class: "finding", "aria-label": "What the chart shows" });
      this.readout = make("div", { class: "readout", "aria-live": "polite" });
      this.files = make("p", { class: "files" });
      this.choice = make("p", { class: "choice" });
      this.table = make("details", {}, make("summary", {}, "Table of what is shown"));
      this.table.addEventListener("toggle", () => this.fillTable());
      this.figure.append(
        this.switches, this.choice, this.drawing, this.readout, this.finding, this.files, this.table,
      );
      for (const fallback of this.figure.querySelectorAll(".fallback")) fallback.remove();
      if (this.chart.panels.filter((key) => this.byKey.get(key).values.length > 1).length > 1) {
        this.addSelect("Panels", "panels", this.chart.panels.map((key) => this.byKey.get(key).label),
          (index) => { this.panel = this.chart.panels[index]; });
      }
      this.selects = new Map();
      for (const each of this.chart.dimensions) {
        if (each.values.length < 2 || this.chart.across.includes(each.key)) continue;
        this.selects.set(each.key, this.addSelect(each.label, each.key, each.values,
          (index) => { this.chosen.set(each.key, index); }));
      }
      if (this.chart.readings.length > 1) {
        this.addSelect("Values", "reading", this.chart.readings.map((each) => each.label),
          (index) => { this.reading = this.chart.readings[index]; });
      }
      for (const event of ["pointerover", "focusin", "click"]) {
        this.drawing.addEventListener(event, (happened) => this.tell(happened.target));
      }
      this.drawing.addEventListener("keydown", (event) => this.move(event));
    }

    addSelect(label, key, options, choose) {
      const select = make("select", { id: `${this.chart.anchor}-${key}` });
      options.forEach((text, index) => select.append(make("option", { value: index }, upper(text))));
      select.addEventListener("change", () => {
        choose(Number(select.value));
        this.update();
      });
      this.switches.append(make("label", {}, `${label} `, select));
      return select;
    }

    // An option is there if a row has it beside what earlier switches say.
    settle() {
      let left = this.rows;
      for (const each of this.switched()) {
        const available = new Set(left.map((row) => row.values.get(each.key)));
        if (!available.has(this.chosen.get(each.key))) {
          this.chosen.set(each.key, Math.min(...available));
        }
        const select = this.selects.get(each.key);
        if (select) {
          select.value = String(this.chosen.get(each.key));
          [...select.options].forEach((option, index) => { option.disabled = !available.has(index); });
        }
        left = left.filter((row) => row.values.get(each.key) === this.chosen.get(each.key));
      }
      for (const [key, select] of this.selects) select.parentElement.hidden = key === this.panel;
      return left;
    }

    update() {
      const order = this.laidOut();
      this.told = null;
      this.shown = [...this.settle()].sort((a, b) => {
        const key = order.find((each) => a.values.get(each) !== b.values.get(each));
        return key === undefined ? 0 : a.values.get(key) - b.values.get(key);
      });
      this.choice.textContent = this.selection();
      this.writeFinding();
      this.writeFiles();
      this.fillTable();
      this.readout.replaceChildren(
        make("p", { class: "hint" }, "Point at a mark, or go there by Tab and the arrow keys, to read its numbers."),
      );
      this.draw();
    }

    wrap(text) {
      const most = Math.max(10, Math.floor(this.chart.panelWidth / 6.5));
      const lines = [""];
      for (const word of text.split(" ")) {
        const last = lines[lines.length - 1];
        if (last && last.length + word.length + 1 > most) lines.push(word);
        else lines[lines.length - 1] = last ? `${last} ${word}` : word;
      }
      return lines.join("\n");
    }

    data() {
      const series = this.chart.across.find((key) => key !== this.panel);
      const panels = [...new Set(this.shown.filter((row) => !this.isShared(row))
        .map((row) => row.values.get(this.panel)))];
      return this.shown.flatMap((row, index) => {
        const drawn = { index, say: this.say(row) };
        for (const { key } of this.chart.dimensions) {
          drawn[key] = this.name(row, key);
          drawn[`${key}_order`] = row.values.get(key);
        }
        for (const [key, value] of Object.entries(row)) {
          if (key !== "values" && key !== "place") drawn[key] = value;
        }
        for (const [key, from] of Object.entries(this.reading ? this.reading.shown : {})) {
          drawn[key] = typeof from === "number" ? from : row[from];
        }
        if (series && !this.isShared(row, series)) {
          drawn.series = this.name(row, series);
          drawn.series_order = row.values.get(series);
        }
        const places = this.isShared(row) ? panels : [row.values.get(this.panel)];
        return places.map((place) => ({
          ...drawn,
          panel: this.wrap(upper(this.byKey.get(this.panel).values[place])),
          panel_order: place,
        }));
      });
    }

    async draw() {
      const turn = ++this.drawn;
      const spec = structuredClone(this.chart.spec);
      if (this.chart.finding.along && this.sayWithoutNumbers()) return;
      const width = this.drawing.clientWidth || 640;
      const panels = new Set(this.shown.filter((row) => !this.isShared(row))
        .map((row) => row.values.get(this.panel))).size || 1;
      const fitting = Math.max(1, Math.floor((width - 160) / (this.chart.panelWidth + 20)));
      spec.columns = Math.ceil(panels / Math.ceil(panels / fitting));
      if (typeof spec.spec.width === "number") {
        spec.spec.width = Math.min(spec.spec.width, Math.max(160, width - 110));
      }
      if (width < 520) {
        Object.assign(spec.config.legend, { orient: "top", columns: 1 });
        spec.config.axisY.labelLimit = 120;
        if (spec.spec.width.step) spec.spec.width.step = Math.min(spec.spec.width.step, 46);
      }
      spec.data = { name: "shown", values: this.data() };
      spec.description = this.found;
      if (this.chart.scaled) {
        const scaled = this.column(this.chart.scaled);
        const values = this.scaledRows().map((row) => row[scaled]).filter((value) => value !== null);
        const limit = values.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
        const least = values.reduce((lowest, value) => Math.min(lowest, value), limit);
        spec.params = [
          ...(spec.params || []),
          { name: "limit", value: limit || 0.1 },
          { name: "least", value: least },
          { name: "most", value: values.reduce((most, value) => Math.max(most, value), least) },
        ];
      }
      try {
        const result = await window.vegaEmbed(make("div"), spec, {
          ast: true, renderer: "svg", actions: false, tooltip: false,
        });
        if (turn !== this.drawn) return result.finalize();
        const svg = result.view.container().querySelector("svg");
        svg.setAttribute("role", "group");
        svg.setAttribute("aria-label", `${this.chart.title}. ${this.found}`);
        // A layer without a mark would be a picture without words.
        for (const empty of svg.querySelectorAll("[role^='graphics']:empty")) empty.removeAttribute("role");
        if (this.last) this.last.finalize();
        this.last = result;
        this.drawing.replaceChildren(result.view.container());
        this.marks = [...svg.querySelectorAll("[aria-label]")].filter((mark) => this.rowOf(mark));
        this.marks.forEach((mark, index) => {
          mark.setAttribute("role", "img");
          mark.removeAttribute("aria-roledescription");
          mark.setAttribute("tabindex", index ? "-1" : "0");
        });
        this.figure.dataset.drawn = String(turn);
      } catch (error) {
        this.drawing.replaceChildren(make("p", {}, `The chart could not be drawn: ${error.message}`));
      }
    }

    // Lines cannot be laid out without a number; then the reasons stand in their place.
    sayWithoutNumbers() {
      const measure = this.column(this.chart.finding.measure);
      if (this.shown.some((row) => row[measure] !== null)) return false;
      const reasons = [...new Set(this.shown.map((row) => row.reason).filter((reason) => reason))];
      this.drawing.replaceChildren(
        make("p", { class: "without" }, `Nothing can be drawn here: ${reasons.join("; ") || this.chart.missing}.`),
      );
      this.figure.dataset.drawn = String(this.drawn);
      return true;
    }

    // Colours are those of all models and panels under the same other switches.
    scaledRows() {
      const fixed = this.switched().filter((each) => !this.chart.panels.includes(each.key));
      return this.rows.filter((row) =>
        fixed.every((each) => row.values.get(each.key) === this.chosen.get(each.key)));
    }

    rowOf(element) {
      const item = element && element.__data__;
      const datum = item && item.datum;
      return datum && datum.index !== undefined ? this.shown[datum.index] : undefined;
    }

    // The marks among which an arrow key finds the next: to left and right a line's own, if there
    // are lines, and up and down those of its panel. A line without a further mark is left.
    reachable(here, sideways) {
      const { along } = this.chart.finding;
      if (!along) return this.marks;
      const panel = (mark) => mark.__data__.datum.panel_order;
      const row = this.rowOf(here);
      const near = this.marks.filter((mark) => panel(mark) === panel(here));
      if (!sideways) return near;
      const line = near.filter((mark) => this.laidOut().every((key) =>
        key === along || this.rowOf(mark).values.get(key) === row.values.get(key)));
      return line.length > 1 ? line : near;
    }

    move(event) {
      const here = event.target;
      if (!this.rowOf(here)) return;
      const towards = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
      if (!towards) return;
      event.preventDefault();
      const centre = (mark) => {
        const box = mark.getBoundingClientRect();
        return [box.left + box.width / 2, box.top + box.height / 2];
      };
      const [x, y] = centre(here);
      let nearest = null;
      let least = Infinity;
      for (const mark of this.reachable(here, towards[0] !== 0)) {
        const [toX, toY] = centre(mark);
        const along = (toX - x) * towards[0] + (toY - y) * towards[1];
        const aside = Math.abs((toX - x) * towards[1]) + Math.abs((toY - y) * towards[0]);
        if (along > 1 && along + 3 * aside < least) [nearest, least] = [mark, along + 3 * aside];
      }
      if (!nearest) return;
      here.setAttribute("tabindex", "-1");
      nearest.setAttribute("tabindex", "0");
      nearest.focus();
    }

    write(row, number) {
      const written = (key) => (row[key] === null ? NONE : FORMATS[number.format](row[key]));
      if (!number.upto || (row[number.key] === null && row[number.upto] === null)) {
        return written(number.key);
      }
      return `[${written(number.key)}, ${written(number.upto)}]`;
    }

    place(row, keys) {
      return keys
        .map((key) => this.byKey.get(key))
        .filter((each) => each.values.length > 1 || this.chart.across.includes(each.key))
        .map((each) => (each.named ? `${each.label} ${this.name(row, each.key)}` : this.name(row, each.key)))
        .join(", ");
    }

    say(row) {
      const keys = this.laidOut();
      if (this.isBare(row)) return `${this.place(row, keys)}: ${row.reason || this.chart.missing}`;
      const numbers = this.chart.numbers
        .filter((each) => row[each.key] !== null)
        .map((each) => `${each.label} ${this.write(row, each)}`);
      return `${this.place(row, keys)}: ${numbers.join(", ")}`;
    }

    // Counts alone are no result.
    isBare(row) {
      return this.chart.numbers.every((each) => each.format === "count" || row[each.key] === null);
    }

    numbersTable(rows, keys, caption, here) {
      const head = make("tr");
      for (const key of keys) head.append(make("th", { scope: "col" }, this.byKey.get(key).label));
      for (const each of this.chart.numbers) {
        head.append(make("th", { scope: "col", class: "number" }, each.label));
      }
      const noted = rows.some((row) => row.reason && !this.isBare(row));
      if (noted) head.append(make("th", { scope: "col" }, "Note"));
      const body = make("tbody");
      for (const row of rows) {
        const line = make("tr");
        if (row === here) line.setAttribute("aria-current", "true");
        for (const key of keys) line.append(make("th", { scope: "row" }, this.name(row, key)));
        if (this.isBare(row)) {
          const columns = this.chart.numbers.length + (noted ? 1 : 0);
          line.append(make("td", { colspan: columns }, row.reason || this.chart.missing));
        } else {
          for (const each of this.chart.numbers) {
            const flag = each === this.chart.numbers[0] && row.flag ? row.flag : "";
            line.append(make("td", { class: "number" }, this.write(row, each) + flag));
          }
          if (noted) line.append(make("td", { class: "reason" }, row.reason || ""));
        }
        body.append(line);
      }
      return make("table", {}, make("caption", {}, caption), make("thead", {}, head), body);
    }

    tell(element) {
      const row = this.rowOf(element);
      if (!row || row === this.told) return;
      this.told = row;
      const compared = this.chart.compared;
      const others = this.chart.dimensions.map((each) => each.key).filter((key) => !compared.includes(key));
      const rows = this.mates(row, compared);
      const box = make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Numbers of the mark" },
        this.numbersTable(rows, compared.filter((key) => this.byKey.get(key).values.length > 1),
          upper(this.place(row, others)), rows.length > 1 ? row : null));
      this.readout.replaceChildren(box);
    }

    mates(row, compared) {
      let combinations = [new Map(row.values)];
      for (const key of compared) {
        combinations = combinations.flatMap((values) =>
          this.byKey.get(key).values.map((_, index) => new Map(values).set(key, index)));
      }
      const found = combinations.map((values) => {
        let place = 0;
        for (const each of this.chart.dimensions) place = place * each.values.length + values.get(each.key);
        return this.at.get(place);
      });
      return found.filter((each) => each !== undefined);
    }

    fillTable() {
      if (!this.table.open) return;
      const keys = this.laidOut().filter((key) => this.byKey.get(key).values.length > 1);
      const box = make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Table of what is shown" },
        this.numbersTable(this.shown, keys, this.selection()));
      this.table.replaceChildren(this.table.firstChild, box);
    }

    selection() {
      return upper(this.switched()
        .filter((each) => each.values.length > 1)
        .map((each) => each.values[this.chosen.get(each.key)])
        .join(", ")) || this.chart.title;
    }

    writeFinding() {
      const { along, by, per, starred, adjusted, up, down, unit } = this.chart.finding;
      const measure = this.column(this.chart.finding.measure);
      const label = this.reading ? this.reading.told : this.chart.finding.label;
      const number = this.chart.numbers.find((each) => each.key === measure);
      const sentences = [];
      for (const [index, name] of this.byKey.get(this.panel).values.entries()) {
        const rows = this.shown.filter((row) => row.values.get(this.panel) === index);
        if (!rows.length) continue;
        const there = rows.filter((row) => row[measure] !== null);
        if (!there.length) {
          sentences.push(`${name}: ${this.chart.missing}`);
          continue;
        }
        const write = (row) => FORMATS[number.format](row[measure]);
        const range = (some) => {
          const sorted = [...some].sort((a, b) => a[measure] - b[measure]);
          const ends = new Set([write(sorted[0]), write(sorted[sorted.length - 1])]);
          return [...ends].join(" to ");
        };
        if (per) {
          sentences.push(`${name}: ${this.tellMarked(there)}`);
          continue;
        }
        let told = `${name}: ${label} ${range(there)}`;
        if (by) {
          const parts = this.chart.columns[by].values
            .map((kind) => [kind, there.filter((row) => row[by] === kind)])
            .filter(([, some]) => some.length)
            .map(([kind, some]) => `${kind} ${range(some)}`);
          told = `${name}: ${[label, parts.join(", ")].filter(Boolean).join(" ")}`;
        }
        if (along) told = `${name}: ${label} ${this.tellAlong(there, along, write)}`;
        if (starred) {
          const marked = there.filter((row) => row[starred] === "*");
          const higher = marked.filter((row) => row[measure] > 0).length;
          const p = this.chart.numbers.find((each) => each.format === "p");
          const tested = p ? there.filter((row) => row[p.key] !== null).length : there.length;
          told += tested
            ? `; ${marked.length ? `asterisk in ${marked.length}` : "no asterisk in any"} of ${tested} ${unit}${tested === 1 ? "" : "s"}`
            : "; not tested";
          if (marked.length) {
            const lower = marked.length - higher;
            const parts = [];
            if (higher) parts.push(`${lower ? `${higher} ` : ""}${up}`);
            if (lower) parts.push(`${higher ? `${lower} ` : ""}${down}`);
            told += ` (${parts.join(", ")})`;
          }
          if (adjusted) {
            const kept = there.filter((row) => row[adjusted] !== null && row[adjusted] < 0.05).length;
            if (marked.length) told += `; after Holm in ${kept}`;
          }
        }
        sentences.push(told);
      }
      this.found = `${upper(this.selection())}. ${sentences.map(upper).join(". ")}.`;
      this.finding.replaceChildren(...sentences.map((text) => make("li", {}, `${upper(text)}.`)));
    }

    // Both ends of each line, by the dimension along which it runs.
    tellAlong(rows, along, write) {
      const series = this.laidOut().find((key) => key !== this.panel && key !== along);
      const lines = new Map();
      for (const row of rows) {
        const name = series ? this.name(row, series) : "";
        lines.set(name, [...(lines.get(name) || []), row]);
      }
      const isShared = (row) => this.laidOut().some((key) => this.isShared(row, key));
      const told = (row) => write(row) + (isShared(row) ? "" : ` at ${this.place(row, [along])}`);
      return [...lines].map(([name, line]) => {
        const own = line.filter((row) => !isShared(row));
        const sorted = [...(own.length ? own : line)].sort((a, b) => a.values.get(along) - b.values.get(along));
        const ends = sorted.length > 1 ? [sorted[0], sorted[sorted.length - 1]] : sorted;
        return `${lines.size > 1 ? `${name} ` : ""}${ends.map(told).join(", ")}`;
      }).join("; ");
    }

    // Values of a dimension at which a row is marked, with what it says of them.
    tellMarked(rows) {
      const { per, starred, adjusted, up, unit } = this.chart.finding;
      const names = (some) => [...new Set(some.map((row) => this.name(row, per)))];
      const marked = names(rows.filter((row) => row[starred] === "*"));
      const all = names(rows).length;
      const told = `${marked.length || "none"} of ${all} ${unit}${all === 1 ? "" : "s"} ${up}`;
      if (!marked.length) return told;
      const kept = names(rows.filter((row) => row[adjusted] !== null && row[adjusted] < 0.05)).length;
      const more = marked.length > 6 ? `, and ${marked.length - 6} more` : "";
      return `${told}: ${marked.slice(0, 6).join(", ")}${more}; after Holm ${kept || "none"}`;
    }

    writeFiles() {
      this.files.replaceChildren();
      if (!this.chart.twins || this.panel !== this.chart.panels[0]) return;
      let path = this.chart.twins;
      if (this.reading) path = path.replaceAll("{reading}", this.reading.file);
      for (const each of this.chart.dimensions) {
        const written = (each.files || each.values)[this.chosen.get(each.key)];
        if (written === null && path.includes(`{${each.key}}`)) return;
        path = path.replaceAll(`{${each.key}}`, written);
      }
      this.files.append("As a file for a paper: ");
      this.chart.suffixes.forEach((suffix, index) => {
        if (index) this.files.append(", ");
        this.files.append(make("a", { href: `${encodeURI(path)}.${suffix}` }, suffix.toUpperCase()));
      });
      this.files.append(".");
    }
  }

  for (const element of document.querySelectorAll("script[type='application/json'][data-chart]")) {
    const chart = JSON.parse(element.textContent);
    const figure = document.getElementById(chart.anchor);
    const begin = () => new Explorer(figure, chart);
    // A chart inside closed details is built when these are opened, since it has no width before.
    const closed = figure.closest("details:not([open])");
    if (closed) closed.addEventListener("toggle", begin, { once: true });
    else begin();
  }
  // What a chart shows too is a click away, no more.
  for (const twin of document.querySelectorAll("details.twin")) twin.open = false;
})();
