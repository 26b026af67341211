"use strict";
(() => {
  const byId = (id) => document.getElementById(id);

  // Light or dark: as the system says until the reader says otherwise.
  const theme = byId("theme");
  if (theme) theme.addEventListener("click", () => {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });

  const copy = byId("copy");
  if (copy) copy.addEventListener("click", () => {
    const range = document.createRange();
    range.selectNodeContents(byId("command"));
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    copy.textContent = document.execCommand("copy") ? "Copied" : "Select and copy";
  });

  const held = byId("frames");
  const slider = byId("slider");
  if (!held || !slider) return;
  const data = JSON.parse(held.textContent);
  const LEVELS = 8, CLIQUES = 12, FULLEST = 5;
  const strands = [...document.querySelectorAll(".strand")];
  const dots = [...document.querySelectorAll(".map .dot")];
  const thumbs = [...document.querySelectorAll(".thumb")];
  const place = new Map(data.directions.map((name, i) => [name, i]));
  const largest = new Map(dots.map((dot) => [dot, dot.closest(".phone") ? 8 : 10]));
  const mark = byId("mark");
  const total = Math.max(1, data.stretches.length);

  const level = (pct) => pct < 0.5 ? 0 : Math.min(LEVELS, 1 + Math.floor(pct * LEVELS / 100));
  const width = (pct) => 1.2 + 5.3 * Math.min(pct, 100) / 100;
  const share = (used, name) => used[place.get(name)] || 0;

  function paint(used, cliques) {
    for (const strand of strands) {
      const pct = share(used, strand.dataset.d);
      strand.style.stroke = level(pct) ? `var(--u${level(pct)})` : "none";
      strand.style.strokeWidth = width(pct);
    }
    const cliqueOf = new Map();
    cliques.forEach((sites, i) => sites.forEach((site) => cliqueOf.set(site, i % CLIQUES)));
    for (const dot of dots) {
      const code = dot.dataset.s;
      const pct = Math.max(share(used, `${code}.island>${code}`), share(used, `${code}>${code}.island`));
      dot.style.fill = cliqueOf.has(code) ? `var(--c${cliqueOf.get(code)})` : "var(--panel)";
      dot.setAttribute("r", largest.get(dot) * (0.5 + 0.45 * Math.min(pct, 100) / 100));
    }
  }

  function listFullest(used) {
    const names = data.directions.map((name, i) => [name, used[i]]).filter(([, pct]) => pct > 0);
    names.sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
    byId("fullest").replaceChildren(...names.slice(0, FULLEST).map(([name, pct]) => {
      const line = document.createElement("li");
      const [text, bar, value] = ["span", "i", "b"].map((tag) => document.createElement(tag));
      text.textContent = name;
      bar.style.width = `${pct}%`;
      bar.style.setProperty("--fill", `var(--u${level(pct)})`);
      value.textContent = `${pct} %`;
      line.append(text, bar, value);
      return line;
    }));
  }

  function listCliques(cliques) {
    const chips = cliques.slice(0, CLIQUES).map((sites, i) => {
      const chip = document.createElement("span");
      chip.className = "chip";
      chip.style.setProperty("--chip", `var(--c${i % CLIQUES})`);
      const everybody = sites.length === data.islands && sites.length > 5;
      chip.textContent = everybody ? `all ${sites.length} islands` : sites.join(" ");
      return chip;
    });
    if (cliques.length > CLIQUES) {
      const more = document.createElement("span");
      more.className = "more";
      more.textContent = `and ${cliques.length - CLIQUES} cliques more`;
      chips.push(more);
    }
    byId("chips").replaceChildren(...chips);
  }

  const mode = () => document.querySelector("input[name=mode]:checked").value;

  function markStrip(first, last) {
    mark.setAttribute("x", first);
    mark.setAttribute("width", Math.max(last - first, total / 300));
  }

  function show() {
    const at = Number(slider.value);
    const byRound = mode() === "rounds";
    const frame = byRound ? data.rounds[at] : data.stretches[at];
    if (!frame) return;
    const round = byRound ? at : frame.r;
    const cliques = data.rounds[round] ? data.rounds[round].cliques : [];
    const when = byRound ? "" : `${frame.t.toFixed(1)} s`;
    const name = data.rounds[round] ? data.rounds[round].label : "between rounds";
    byId("label").textContent = [when, name].filter(Boolean).join(", ");
    paint(frame.u, cliques);
    listCliques(cliques);
    listFullest(frame.u);
    if (byRound) {
      const within = data.stretches.map((one, i) => one.r === at ? i : -1).filter((i) => i >= 0);
      markStrip(within.length ? within[0] : 0, within.length ? within[within.length - 1] + 1 : 0);
    } else {
      markStrip(at, at + 1);
    }
    for (const thumb of thumbs) {
      thumb.setAttribute("aria-current", String(Number(thumb.dataset.round) === round));
    }
  }

  function changeMode() {
    const frames = data[mode()];
    const share = Number(slider.value) / Math.max(1, Number(slider.max));
    slider.max = Math.max(0, frames.length - 1);
    slider.value = Math.round(share * slider.max);
    show();
  }

  let timer = 0;
  const play = byId("play");
  function stop() {
    clearInterval(timer);
    timer = 0;
    play.textContent = "\u25B6";
    play.setAttribute("aria-label", "Play");
  }
  function step() {
    if (Number(slider.value) >= Number(slider.max)) return stop();
    slider.value = Number(slider.value) + 1;
    show();
  }
  play.addEventListener("click", () => {
    if (timer) return stop();
    if (slider.value === slider.max) slider.value = 0;
    timer = setInterval(step, mode() === "rounds" ? 900 : 90);
    play.textContent = "\u275A\u275A";
    play.setAttribute("aria-label", "Pause");
    show();
  });
  slider.addEventListener("input", () => { stop(); show(); });
  document.querySelectorAll("input[name=mode]").forEach((one) => one.addEventListener("change", () => {
    stop();
    changeMode();
  }));
  thumbs.forEach((thumb) => thumb.addEventListener("click", () => {
    stop();
    const rounds = document.querySelector("input[name=mode][value=rounds]");
    rounds.checked = true;
    changeMode();
    slider.value = thumb.dataset.round;
    show();
  }));
  changeMode();
})();
