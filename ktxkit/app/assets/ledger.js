(() => {
  const page = JSON.parse(document.getElementById("data").textContent);
  const { $, make, put, words, plural, short, took, pane, pairs, listing, block } = ktx;
  const { report, slowest, movers, flaky } = page;
  const runs = report.rows, facts = report.facts;
  const seconds = (s) => s === undefined ? "" : took(1000 * s);
  const when = (at) => (at || "").replace("T", " ").replace(/\.\d+Z$/, "Z");

  const verdict = (run) => run.verdict || "running";
  const tone = (word) => ({ passed: "good", failed: "bad", running: "" })[word] ?? "warn";
  const word = (text, kind) => put(make("span", `word ${kind}`), make("span", `dot ${kind}`), words(text));
  const verdictText = (run) => run.state && !["finished", verdict(run)].includes(run.state) ? `${verdict(run)}: ${words(run.state)}` : verdict(run);
  const scope = (run) => run.scope || "not known yet";
  const authority = (run) => run.authoritative ? "authoritative" : (run.against || []).length ? `no: ${run.against[0]}` : "";

  // ---- head
  $("project").textContent = report.project;
  const last = runs.find((run) => !run.what && run.verdict && run.verdict !== "planned");
  $("badge").textContent = last ? `last run: ${verdictText(last)}` : "no run has ended";
  $("badge").classList.add(last ? tone(verdict(last)) || "calm" : "calm");
  $("lead").textContent = !runs.length ? "No run is recorded." : [
    facts.shown < facts.runs ? `The newest ${facts.shown} of ${plural(facts.runs, "recorded run")}` : plural(facts.runs, "recorded run"),
    `${facts.full} of them full`, `${facts.authoritative} authoritative`,
    `${plural(facts.words, "test")} with a word`,
  ].join(", ") + ".";
  const fact = (name, value, mono) => {
    if (value === undefined || value === "") return;
    put($("facts"), put(make("div"), make("dt", "", name), put(make("dd"), make(mono ? "code" : "span", "", value))));
  };
  const newest = (wanted) => runs.find((run) => !run.what && run.verdict && wanted(run));
  const told = (run) => run && `${verdictText(run)}, ${run.tests}, ${when(run.started)}`;
  fact("Last full run", told(newest((run) => run.scope === "full")) || "none is recorded");
  fact("Last scoped run", told(newest((run) => run.scope !== "full" && run.scope !== "none")));
  const relied = newest((run) => run.authoritative);
  fact("Last authoritative run", relied ? `${told(relied)}, of tree ${short(relied.tree)}` : "none");
  fact("Running now", (facts.running || []).join(", "));

  // ---- runs
  const COLUMNS = [["run", "Run", (r) => r.run], ["started", "Started", (r) => r.started || "~"], ["scope", "Scope", scope], ["verdict", "Verdict", verdict],
    ["tests", "Tests", (r) => (r.counts || {}).selected ?? -1], ["took", "Took", (r) => r.wall ?? -1], ["authority", "Authority", authority]];
  const state = { scope: new Set(), verdict: new Set(), query: "", sort: "started", down: true, current: -1 };
  const row = (cls) => { const node = make("div", cls); node.setAttribute("role", "row"); return node; };
  const cell = (cls, text) => { const node = make("div", `cell ${cls}`, text); node.setAttribute("role", "cell"); return node; };
  const items = runs.map((run, index) => {
    const tr = row("unit cells"), open = make("button", "open", run.run);
    open.type = "button";
    open.setAttribute("aria-expanded", "false");
    put(tr, put(cell("c-run"), open), cell("c-started", when(run.started)), cell("c-scope", [scope(run), run.what].filter(Boolean).join(", ")),
      put(cell("c-verdict"), word(verdict(run), tone(verdict(run)))), cell("c-tests", run.tests || ""), cell("number c-took", seconds(run.wall)),
      cell("c-authority", authority(run)));
    const failed = (page.failures[run.run] || []).map((one) => one.test);
    const text = [run.run, scope(run), verdictText(run), run.what, run.commit, run.tree, run.trigger, authority(run), ...(run.paths || []), ...(run.why || []), ...failed];
    return { run, tr, open, index, text: text.join("\n").toLowerCase(), detail: null, shown: true };
  });
  const byAge = [...items].sort((a, b) => (a.run.started || "~") < (b.run.started || "~") ? -1 : 1);

  for (const [name, label] of COLUMNS) {
    const th = make("div", `c-${name} ${name === "took" ? "number" : ""}`), button = make("button", "", label);
    th.setAttribute("role", "columnheader");
    button.type = "button";
    button.addEventListener("click", () => {
      state.down = state.sort === name ? !state.down : false;
      state.sort = name;
      arrange();
    });
    th.append(button);
    th.dataset.name = name;
    $("head").append(th);
  }
  const arrange = () => {
    const key = COLUMNS.find(([name]) => name === state.sort)[2];
    items.sort((a, b) => {
      const x = key(a.run), y = key(b.run), order = x < y ? -1 : x > y ? 1 : 0;
      return (state.down ? -order : order) || a.index - b.index;
    });
    const all = document.createDocumentFragment();
    for (const item of items) put(all, item.tr, item.detail);
    $("rows").replaceChildren(all);
    for (const th of $("head").children) {
      if (th.dataset.name === state.sort) th.setAttribute("aria-sort", state.down ? "descending" : "ascending");
      else th.removeAttribute("aria-sort");
    }
    state.current = -1;
  };

  const draw = () => {
    const shown = byAge.filter((item) => item.shown && item.run.wall !== undefined);
    const top = shown.reduce((most, item) => Math.max(most, item.run.wall), 0) || 1;
    $("chart").replaceChildren(...shown.map((item) => {
      const node = make("i", `column ${tone(verdict(item.run))} ${item.run.scope === "full" ? "" : "scoped"}`);
      node.style.height = `${100 * item.run.wall / top}%`;
      node.title = `${item.run.run}: ${scope(item.run)}, ${verdictText(item.run)}, ${seconds(item.run.wall)}`;
      node.addEventListener("click", () => select(items.indexOf(item)));
      return node;
    }));
    $("chart").setAttribute("aria-label", `Wall time of ${plural(shown.length, "run")}, up to ${seconds(top)}; the table below has each`);
    $("chart-box").hidden = !shown.length;
    $("scale").replaceChildren(...[["high", 0, top], ["", 50, top / 2], ["low", 100, 0]].map(([cls, at, value]) => {
      const mark = make("span", cls, value ? seconds(value) : "0");
      mark.style.top = `${at}%`;
      return mark;
    }));
  };
  const filter = () => {
    let count = 0;
    for (const item of items) {
      item.shown = (!state.scope.size || state.scope.has(scope(item.run))) && (!state.verdict.size || state.verdict.has(verdict(item.run)))
        && (!state.query || item.text.includes(state.query));
      count += item.shown;
      if (item.tr.hidden === item.shown) item.tr.hidden = !item.shown;
      if (item.detail) item.detail.hidden = !item.shown;
    }
    $("shown").textContent = count === items.length ? plural(count, "run") : `${count} of ${plural(items.length, "run")}`;
    $("none").hidden = count > 0 || !items.length;
    for (const chip of $("filters").children) {
      const { kind, word } = chip.dataset;
      chip.setAttribute("aria-pressed", String(kind ? state[kind].has(word) : !state.scope.size && !state.verdict.size));
    }
    draw();
    address();
  };
  const chip = (kind, label, count) => {
    const node = make("button", "chip");
    node.type = "button";
    if (kind) { node.dataset.kind = kind; node.dataset.word = label; }
    put(node, kind === "verdict" ? make("span", `dot ${tone(label)}`) : null, make("span", "", kind ? words(label) : "All"), make("b", "", String(count)));
    node.addEventListener("click", () => {
      if (!kind) { state.scope.clear(); state.verdict.clear(); } else if (!state[kind].delete(label)) state[kind].add(label);
      filter();
    });
    $("filters").append(node);
  };
  chip("", "", items.length);
  for (const [kind, of] of [["scope", scope], ["verdict", verdict]]) {
    const counts = new Map();
    for (const { run } of items) counts.set(of(run), (counts.get(of(run)) || 0) + 1);
    for (const [label, count] of [...counts].sort((a, b) => b[1] - a[1])) chip(kind, label, count);
  }

  const failure = (one) => put(make("div", "finding"), put(make("p"), make("code", "", one.test), ` ${words(one.outcome || one.what || "")}`), one.message ? block(one.message, `What ${one.test} said`) : null);
  const detail = (run) => {
    const grid = make("div", "grid"), failures = page.failures[run.run] || [], counts = run.counts || {};
    put(grid,
      pane(`Scope: ${scope(run)}`, false, make("p", "", run.scope === "full" ? "Nothing narrowed it, and all that was selected ran to its end." : ""),
        listing((run.paths || []).map((path) => make("code", "", path))), listing((run.why || []).map((why) => make("span", "", why)))),
      pane(run.authoritative ? "Authority: it may be relied upon" : "Authority: none", false,
        make("p", "", run.authoritative ? `For tree ${run.tree}, and no other.` : ""), listing((run.against || []).map((why) => make("span", "", why)))),
      pane("Tests", false, pairs(Object.entries(counts).map(([key, n]) => [key.replace(/[A-Z]/g, (c) => ` ${c.toLowerCase()}`), n]))),
      pane("Where it is from", false, pairs([["Finished", when(run.finished)], ["State", words(run.state || "")], ["Exit status", run.exitStatus], ["Signal", run.signal], ["Trigger", run.trigger],
        ["Commit", run.commit, true], ["Tree", run.tree, true], ["Uncommitted work", run.dirty === undefined ? undefined : run.dirty ? "yes" : "no"], ["Source", run.source, true]])),
      failures.length ? pane(`${plural(failures.length, "test")} that did not pass`, true, ...failures.map(failure)) : null);
    const whole = put(cell("whole"), grid);
    whole.setAttribute("aria-colspan", String(COLUMNS.length));
    return put(row("detail cells"), whole);
  };
  const toggle = (item) => {
    const open = item.open.getAttribute("aria-expanded") === "true";
    item.open.setAttribute("aria-expanded", String(!open));
    if (open) { item.detail.remove(); item.detail = null; } else { item.detail = detail(item.run); item.tr.after(item.detail); }
    address();
  };
  for (const item of items) {
    item.tr.addEventListener("click", (event) => {
      if (window.getSelection().toString() && event.target !== item.open) return;
      select(items.indexOf(item));
      toggle(item);
    });
  }
  const select = (index) => {
    if (items[state.current]) items[state.current].tr.classList.remove("current");
    state.current = index;
    const item = items[index];
    item.tr.classList.add("current");
    item.open.focus({ preventScroll: true });
    item.tr.scrollIntoView({ block: "nearest" });
  };
  const step = (by, wanted) => {
    let at = state.current + (state.current < 0 && by < 0 ? items.length : 0);
    for (at += by; items[at]; at += by) if (items[at].shown && wanted(items[at].run)) return select(at);
  };

  // ---- tables of tests
  const table = (label, columns, rows) => {
    const made = make("table"), head = make("tr"), body = make("tbody");
    for (const [name, cls] of columns) { const th = make("th", cls, name); th.scope = "col"; head.append(th); }
    for (const cells of rows) {
      const tr = make("tr");
      cells.forEach((value, i) => tr.append(value instanceof Node ? put(make("td", columns[i][1]), value) : make("td", columns[i][1], value)));
      body.append(tr);
    }
    const box = put(make("div", "scroll"), put(made, put(make("thead"), head), body));
    box.tabIndex = 0;
    box.setAttribute("role", "region");
    box.setAttribute("aria-label", label);
    return box;
  };
  const code = (text) => make("code", "", text);
  const bars = (label, parts) => {
    const node = make("div", "track");
    node.setAttribute("role", "img");
    node.setAttribute("aria-label", label);
    for (const [cls, left, width] of parts) {
      const bar = make("i", `bar ${cls}`);
      bar.style.left = `${left}%`;
      bar.style.width = `${width}%`;
      node.append(bar);
    }
    return node;
  };
  if (slowest.rows.length) {
    const most = slowest.rows[0].total || 1;
    const stacked = (one) => {
      let at = 0;
      const parts = ["setup", "call", "teardown"].filter((name) => one[name]).map((name) => [name, 100 * at / most, 100 * (at += one[name], one[name]) / most]);
      return bars(parts.map(([name]) => `${name} ${seconds(one[name])}`).join(", "), parts);
    };
    $("slowest-note").textContent = `Of run ${slowest.facts.run} (${slowest.facts.scope}): ${plural(slowest.facts.tests, "test")}, ${seconds(slowest.facts.seconds)} of tests in all.`;
    put($("slowest"), table("Tests that took longest", [["Test", "name"], ["Outcome", ""], ["Took", "number"], ["Setup, call, teardown", "wide"]],
      slowest.rows.map((one) => [code(one.test), words(one.outcome), seconds(one.total), stacked(one)])),
      put(make("p", "legend"), ...["setup", "call", "teardown"].map((name) => put(make("span"), make("i", name), name))));
  } else $("slowest-note").textContent = slowest.reason || "No run with results is recorded.";

  const times = movers.rows.filter((one) => one.change === "time" && Math.abs(one.delta) >= 0.001), others = movers.rows.filter((one) => one.change && one.change !== "time");
  if (times.length || others.length) {
    const [was, now] = movers.subject, most = times.reduce((top, one) => Math.max(top, Math.abs(one.delta)), 0) || 1;
    $("movers-note").textContent = `From run ${was} to run ${now}: same scope, environment, workers and scheduling.`;
    put($("movers"), table("Tests that changed most", [["Test", "name"], ["Change", ""], ["Was", "number"], ["Is", "number"], ["Difference", "number"], ["", "wide"]], [
      ...others.map((one) => [code(one.test), one.change, "", "", "", ""]),
      ...times.map((one) => [code(one.test), one.delta > 0 ? "takes longer" : "takes less", seconds(one.was), seconds(one.now), `${one.delta > 0 ? "+" : "−"}${seconds(Math.abs(one.delta))}`,
        bars(`${one.delta > 0 ? "longer" : "less"} by ${seconds(Math.abs(one.delta))}`, [one.delta > 0 ? ["more", 50, 50 * one.delta / most] : ["less", 50 + 50 * one.delta / most, -50 * one.delta / most]])])]));
  } else $("movers-note").textContent = movers.reason || `Between the runs ${(movers.subject || []).join(" and ")} nothing changed by a millisecond or more.`;

  const meaning = new Map(page.words.map((one) => [one.word, one.means]));
  $("tests-note").textContent = flaky.rows.length ? "A word stands here only where recorded executions earn it; they are shown. " + (flaky.reason || "") : flaky.reason || "No test has one.";
  for (const one of flaky.rows) {
    const box = make("details", "tested"), evidence = page.evidence[one.test] || [];
    put(box, put(make("summary"), word(one.word, one.word === "failing" || one.word === "flaky" ? "bad" : "warn"), code(one.test), make("span", "soft", `${one.why}; ${plural(one.executions, "execution")} read`)));
    const keys = [...new Set(evidence.flatMap(Object.keys))].filter((key) => key !== "identical");
    const show = (value) => value === undefined || value === null ? "" : value === true ? "yes" : value === false ? "no" : String(value);
    put(box, put(make("div", "inside"), make("p", "", `${words(one.word)}: ${meaning.get(one.word) || ""}.`),
      evidence.length ? table(`Executions of ${one.test}`, keys.map((key) => [key, ""]), evidence.map((found) => keys.map((key) => key === "run" ? code(found.run) : show(found[key])))) : null));
    $("tests").append(box);
  }
  if (flaky.facts.tests > flaky.rows.length) $("tests").append(make("p", "soft", `and ${flaky.facts.tests - flaky.rows.length} more: ledger-query flaky`));
  $("made").textContent = `Made ${page.made} by ktxkit ${page.version}.`;

  // ---- the address holds what is shown, so that a view can be sent to somebody
  let quiet = true;
  const KINDS = ["scope", "verdict"];
  const address = () => {
    if (quiet) return;
    const parts = KINDS.filter((kind) => state[kind].size).map((kind) => `${kind}=${[...state[kind]].map(encodeURIComponent).join(",")}`);
    if (state.query) parts.push(`q=${encodeURIComponent(state.query)}`);
    const open = items.filter((item) => item.detail).map((item) => item.run.run);
    if (open.length) parts.push(`open=${open.map(encodeURIComponent).join(",")}`);
    history.replaceState(null, "", parts.length ? `#${parts.join("&")}` : location.pathname + location.search);
  };
  const asked = new URLSearchParams(location.hash.slice(1));
  const listed = (name) => (asked.get(name) || "").split(",").filter(Boolean);
  for (const kind of KINDS) for (const label of listed(kind)) if ([...$("filters").children].some((c) => c.dataset.kind === kind && c.dataset.word === label)) state[kind].add(label);
  state.query = (asked.get("q") || "").toLowerCase();
  $("search").value = state.query;

  const clear = () => { state.scope.clear(); state.verdict.clear(); state.query = ""; $("search").value = ""; filter(); };
  $("clear").addEventListener("click", clear);
  $("search").addEventListener("input", () => { state.query = $("search").value.trim().toLowerCase(); filter(); });
  window.addEventListener("beforeprint", () => { for (const box of document.querySelectorAll("details")) box.open = true; });
  ktx.keys({
    "/": () => { $("search").focus(); $("search").select(); },
    j: () => step(1, () => true),
    k: () => step(-1, () => true),
    n: () => step(1, (run) => verdict(run) !== "passed"),
  }, clear);

  arrange();
  filter();
  const open = new Set(listed("open"));
  for (const item of items) if (open.has(item.run.run)) toggle(item);
  quiet = false;
  document.documentElement.dataset.ready = "true";
})();
