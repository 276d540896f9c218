/* Leafs through the examples of each study. Data come from the page's own JSON; every text is put
   in as text, never as markup. */
(() => {
  "use strict";
  // Where these stand in a row of the data; the fields' values follow. All but the text are
  // numbers of what stands once for all rows.
  const MODEL = 0, SETTING = 1, GROUP = 2, ROLE = 3, PROMPT = 4, TEXT = 5, FIELDS = 6;
  const ALL = "";

  function make(tag, text, className) {
    const element = document.createElement(tag);
    if (text !== undefined) element.textContent = text;
    if (className) element.className = className;
    return element;
  }

  function makeText(text, className, name, direction) {
    const element = make("pre", text, className);
    element.dir = direction;
    element.tabIndex = 0;
    element.setAttribute("role", "group");
    element.setAttribute("aria-label", name);
    return element;
  }

  function makeExample(row, data) {
    const example = make("article", undefined, "example");
    const [system, prompt] = data.prompts[row[PROMPT]];
    example.append(make("h4", data.roles[row[ROLE]]));
    if (system) example.append(makeText(system, "asked", "System prompt", "auto"));
    example.append(makeText(prompt, "asked", "Prompt", "auto"));
    const direction = data.programs ? "ltr" : "auto";
    example.append(makeText(row[TEXT], data.programs ? "text lines" : "text", "Answer", direction));
    const told = make("dl");
    data.fields.forEach((name, at) => {
      told.append(make("dt", name), make("dd", data.values[row[FIELDS + at]]));
    });
    example.append(told);
    return example;
  }

  function fillSelect(select, names, all) {
    select.append(new Option(all, ALL));
    names.forEach((name, number) => select.append(new Option(name, String(number))));
    select.parentElement.hidden = names.length < 2;
  }

  /* Rows that are shown side by side: of one model, setting and group, and failing draws alone. */
  function arrangePlates(rows, data) {
    const plates = new Map();
    rows.forEach((row) => {
      const place = row.slice(MODEL, ROLE).join();
      const key = data.ends.includes(row[ROLE]) ? place : `${place},${plates.size}`;
      plates.set(key, [...(plates.get(key) || []), row]);
    });
    return [...plates.values()];
  }

  function start(browser) {
    const data = JSON.parse(document.getElementById(browser.dataset.examples).textContent);
    const places = { model: MODEL, setting: SETTING, group: GROUP, role: ROLE };
    const selects = {};
    browser.querySelectorAll("[data-choice]").forEach((select) => {
      selects[select.dataset.choice] = select;
    });
    const counted = browser.querySelector(".counted");
    const shown = browser.querySelector(".shown");
    let plates = [];
    let at = 0;

    fillSelect(selects.model, data.models, "all models");
    fillSelect(selects.setting, data.settings, "all settings");
    fillSelect(selects.group, data.groups, `all ${data.group}s`);
    fillSelect(selects.role, data.roles, "any");
    selects.model.value = "0";
    selects.setting.value = String(data.start);

    function matches(row) {
      return Object.entries(places).every(
        ([name, place]) => selects[name].value === ALL || Number(selects[name].value) === row[place],
      );
    }

    function show() {
      const plate = plates[at] || [];
      shown.replaceChildren(...plate.map((row) => makeExample(row, data)));
      if (!plate.length) {
        counted.textContent = "No example matches.";
        return;
      }
      const [row] = plate;
      const place = [data.groups[row[GROUP]], data.models[row[MODEL]], data.settings[row[SETTING]]];
      counted.textContent = `${at + 1} of ${plates.length}: ${place.join("; ")}`;
    }

    function choose(changed) {
      let rows = data.rows.filter(matches);
      // Few draws fail, and rarely where one is looking: look further off for them.
      for (const name of ["group", "setting", "model"]) {
        if (rows.length || changed !== "role") break;
        selects[name].value = ALL;
        rows = data.rows.filter(matches);
      }
      plates = arrangePlates(rows, data);
      at = 0;
      show();
    }

    Object.entries(selects).forEach(([name, select]) => {
      select.addEventListener("change", () => choose(name));
    });
    browser.querySelectorAll("[data-turn]").forEach((button) => {
      button.addEventListener("click", () => {
        if (!plates.length) return;
        at = (at + Number(button.dataset.turn) + plates.length) % plates.length;
        show();
      });
    });
    choose();
    browser.hidden = false;
  }

  document.querySelectorAll("[data-examples]").forEach(start);
})();
