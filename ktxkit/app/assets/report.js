"use strict";
(() => {
  const page = JSON.parse(document.getElementById("data").textContent);
  const report = page.report, evidence = page.evidence;
  const { $, make, put, words, plural, short, took, bytes, pane, pairs, listing, block } = ktx;

  const GOOD = new Set(["accepted", "subsumed", "noop"]);
  const WAITING = new Set(["pending", "open", "collected", "finished"]);
  const tone = (word) => GOOD.has(word) ? "good" : WAITING.has(word) || word === "skipped" ? "" : word === "policy_rejected" ? "warn" : "bad";

  const order = (word) => ({ bad: 0, warn: 1, "": 2, good: 3 })[tone(word)];

  // ---- time: one scale for the phases and for every row
  const PHASES = { run: 0, recovery: 0, snapshot: 0, routing: 0, projection: 1, work_unit: 2, collect: 3, integration: 4, gates: 5, landing: 6 };
  const colour = (phase) => `var(--p${PHASES[phase] ?? 7})`;
  const origin = Date.parse(report.timeline.origin);
  const byUnit = new Map();
  for (const span of report.timeline.spans) {
    if (!span.unitKey) continue;
    if (!byUnit.has(span.unitKey)) byUnit.set(span.unitKey, []);
    byUnit.get(span.unitKey).push(span);
  }
  for (const unit of report.workUnits) {
    if (!unit.startedAt || !unit.endedAt) continue;
    const startMs = Math.max(0, Date.parse(unit.startedAt) - origin);
    const list = byUnit.get(unit.key) || [];
    if (list.some((span) => span.name === "work_unit_command")) continue; // the trace has it already
    list.unshift({ phase: "work_unit", name: "run", startMs, durationMs: Date.parse(unit.endedAt) - origin - startMs, ok: unit.exitStatus === 0 });
    byUnit.set(unit.key, list);
  }
  let total = 1;
  for (const phase of report.phases) total = Math.max(total, phase.endMs);
  for (const spans of byUnit.values()) for (const span of spans) total = Math.max(total, span.startMs + span.durationMs);

  const bar = (span) => {
    const node = make("i", span.ok === false ? "bar failed" : "bar");
    node.style.left = `${Math.min(99.6, 100 * span.startMs / total)}%`;
    node.style.width = `${Math.max(0, Math.min(100 * span.durationMs / total, 100 - 100 * span.startMs / total))}%`;
    node.style.background = colour(span.phase);
    node.title = `${words(span.name)}: ${took(span.durationMs)}${span.ok === false ? ", failed" : ""}`;
    return node;
  };
  const track = (spans, label) => {
    const node = make("div", "track");
    node.setAttribute("role", "img");
    node.setAttribute("aria-label", label);
    for (const span of spans) node.append(bar(span));
    return node;
  };
  const axis = (marks) => {
    const node = make("div", "axis");
    node.setAttribute("aria-hidden", "true");
    for (let i = 0; i <= marks; i++) {
      const mark = make("span", i === marks ? "last" : "", i ? took(total * i / marks) : "0");
      mark.style.left = `${100 * i / marks}%`;
      node.append(mark);
    }
    return node;
  };
  const row = (name, spans, time) => put(make("div", "phase"),
    make("span", "phase-name", name), track(spans, `${name}: ${time}`), make("span", "phase-time", time));

  // ---- head
  const outcome = report.outcome || report.status;
  $("job").textContent = report.jobId;
  $("badge").textContent = outcome === "error" ? "failed" : outcome;
  $("badge").classList.add({ done: "good", partial: "warn", error: "bad" }[outcome] || "calm");
  const isolated = report.isolatedDiff;
  const landed = isolated.acceptedPatches + isolated.subsumed;
  $("lead").textContent = [
    `${landed} of ${plural(report.workUnits.length, "unit")} ${report.commitSha ? `landed on ${report.target.replace("refs/heads/", "")} as ${short(report.commitSha)}` : "accepted, nothing landed"}`,
    isolated.noops ? `${isolated.noops} changed nothing` : "",
    report.failedWorkUnits.length ? `${report.failedWorkUnits.length} did not land` : "",
    report.durationMs !== undefined ? `in ${took(report.durationMs)}` : "",
  ].filter(Boolean).join(", ") + ".";
  if (report.next) put($("next"), "Next: ", make("code", "", report.next));
  else $("next").hidden = true;
  const CLASHES = { contents: "both sides changed the same lines", "modify/delete": "one side changed it, the other deleted it",
    "add/add": "both sides added it, with other content", binary: "both sides changed it, and it is binary" };
  const ENDED = { recovery: "while an earlier attempt was put right", snapshot: "before units began", projection: "in the projection",
    units: "while units ran", integration: "while changes were merged", gates: "at the final gates", landing: "at landing" };
  if (report.failure) {
    const box = $("failure");
    box.hidden = false;
    put(box, make("h2", "", `Ended ${ENDED[report.failure.phase] || `in ${report.failure.phase}`}`), make("p", "", report.failure.message));
  }
  if (report.problems) {
    const box = $("problems");
    box.hidden = false;
    put(box, make("h2", "", "Damaged documents"));
    for (const problem of report.problems) box.append(make("p", "", `${problem.where}: ${problem.message}`));
  }
  const fact = (name, value, mono) => {
    if (value === undefined || value === "") return;
    put($("facts"), put(make("div"), make("dt", "", name), put(make("dd"), make(mono ? "code" : "span", "", value))));
  };
  fact("Target", report.target.replace("refs/heads/", ""));
  fact("Target before", short(report.targetAtStart), true);
  fact("Landed as", short(report.commitSha), true);
  if (isolated.ingestionBaseSha !== report.targetAtStart) fact("Base of the units", short(isolated.ingestionBaseSha), true);
  fact("Projection", short(isolated.projectionSha), true);
  if (report.connectionId !== "local" || report.sourceKey !== "manual") fact("Source", `${report.connectionId} / ${report.sourceKey}`);
  fact("Sync", report.syncId);
  if (report.diffSummary) {
    const size = (value) => Array.isArray(value) ? value.length : value;
    fact("Inputs", Object.entries(report.diffSummary).map(([word, n]) => `${size(n)} ${word}`).join(", "));
  }
  fact("Started", (report.startedAt || report.createdAt).replace("T", " ").replace(".000Z", "Z"));
  fact("Took", took(report.durationMs));
  if (report.provenanceRows !== undefined) fact("Provenance rows", String(report.provenanceRows));
  $("trace").textContent = report.tracePath;
  $("made").textContent = `Made ${report.generatedAt} by ktxkit ${page.version}.`;
  const listed = (name, texts) => {
    $(`${name}-section`).hidden = !texts.length;
    for (const text of texts) $(name).append(make("li", "", text));
  };
  const CUT = { inline: "code span", sl_ref: "sl_refs entry", ref: "refs entry", table: "tables entry" };
  listed("warnings", [...(report.warnings || []), ...((report.projectionResult || {}).warnings || [])]);
  listed("cuts", (report.prunedReferences || []).map((one) => `${one.artifact}: ${CUT[one.kind] || one.kind} ${one.removedRef}`));
  listed("left", [...(report.unresolved || []), ...(report.unmapped || [])]
    .map((one) => `${one.rawPath}: ${one.reason || "no reason given"}`));

  // ---- phases
  if (report.phases.length) {
    for (const phase of report.phases) {
      const span = { phase: phase.phase, name: phase.phase, startMs: phase.startMs, durationMs: phase.endMs - phase.startMs, ok: phase.errors === 0 };
      $("phases").append(row(words(phase.phase), [span], took(span.durationMs)));
    }
    $("phases").append(put(make("div", "phase"), make("span"), axis(window.innerWidth > 700 ? 6 : 2), make("span")));
  } else {
    $("phases").append(make("p", "soft", "The trace has no events."));
  }

  // ---- the table
  const COLUMNS = [
    ["number", "#", (u) => u.position], ["unit", "Unit", (u) => u.key], ["outcome", "Outcome", (u) => u.outcome],
    ["reason", "Reason", (u) => u.reason], ["paths", "Paths", (u) => u.pathCount], ["took", "Took", (u) => spent(u)],
    ["time", "When", (u) => firstAt(u)],
  ];
  const spent = (u) => { // steps stand within others: each moment counts once
    let sum = 0, end = 0;
    for (const span of [...(byUnit.get(u.key) || [])].sort((a, b) => a.startMs - b.startMs)) {
      const last = span.startMs + span.durationMs;
      sum += Math.max(0, last - Math.max(end, span.startMs));
      end = Math.max(end, last);
    }
    return sum;
  };
  const firstAt = (u) => (byUnit.get(u.key) || []).reduce((low, s) => Math.min(low, s.startMs), Infinity);
  const cells = (cls) => { const node = make("div", cls); node.setAttribute("role", "row"); return node; };
  const cell = (cls, text) => { const node = make("div", `cell ${cls}`, text); node.setAttribute("role", "cell"); return node; };
  const state = { outcome: new Set(), query: "", sort: "", down: false, current: -1 };
  const items = report.workUnits.map((unit) => {
    const tr = cells("unit cells");
    const open = make("button", "open", unit.key);
    open.type = "button";
    open.setAttribute("aria-expanded", "false");
    const word = put(make("span", `word ${tone(unit.outcome)}`), make("span", `dot ${tone(unit.outcome)}`), words(unit.outcome));
    const spans = byUnit.get(unit.key) || [];
    const all = spent(unit);
    put(tr, cell("number", String(unit.position)), put(cell("c-unit"), open), put(cell("c-outcome"), word),
      put(cell("c-reason"), make("span", "reason", unit.reason)), cell("number paths", unit.pathCount ? String(unit.pathCount) : ""),
      cell("number took", spans.length ? took(all) : ""),
      put(cell("time"), spans.length ? track(spans, `${plural(spans.length, "step")}, ${took(all)}`) : null));
    const printed = evidence[unit.position] || {};
    const text = [unit.key, unit.outcome, words(unit.outcome), unit.reason, ...unit.paths.map((p) => p.path),
      printed.stdout, printed.stderr, printed.verification].filter(Boolean).join("\n").toLowerCase();
    return { unit, tr, open, text, detail: null, shown: true };
  });

  const head = $("head");
  for (const [name, label] of COLUMNS) {
    const kind = { number: "number", paths: "paths number", took: "took number", time: "time" }[name] || "";
    const th = make("div", `c-${name} ${kind}`);
    th.setAttribute("role", "columnheader");
    const button = make("button", "", label);
    button.type = "button";
    button.addEventListener("click", () => {
      state.down = state.sort === name ? !state.down : false;
      state.sort = name;
      arrange();
    });
    th.append(button);
    th.dataset.name = name;
    head.append(th);
  }

  const arrange = () => {
    const key = state.sort ? COLUMNS.find(([name]) => name === state.sort)[2] : (u) => order(u.outcome);
    const compare = (a, b) => {
      const x = key(a.unit), y = key(b.unit);
      const order = typeof x === "number" ? x - y || 0 : x < y ? -1 : x > y ? 1 : 0;
      return (state.down ? -order : order) || a.unit.position - b.unit.position;
    };
    items.sort(compare);
    const rows = document.createDocumentFragment();
    for (const item of items) put(rows, item.tr, item.detail);
    $("rows").replaceChildren(rows);
    for (const th of head.children) {
      if (th.dataset.name === state.sort) th.setAttribute("aria-sort", state.down ? "descending" : "ascending");
      else th.removeAttribute("aria-sort");
    }
    state.current = -1;
  };

  const filter = () => {
    let shown = 0;
    for (const item of items) {
      item.shown = (!state.outcome.size || state.outcome.has(item.unit.outcome)) && (!state.query || item.text.includes(state.query));
      shown += item.shown;
      if (item.tr.hidden === item.shown) item.tr.hidden = !item.shown;
      if (item.detail) item.detail.hidden = !item.shown;
    }
    $("shown").textContent = shown === items.length ? plural(shown, "unit") : `${shown} of ${plural(items.length, "unit")}`;
    $("none").hidden = shown > 0 || !items.length;
    for (const chip of $("outcomes").children) {
      chip.setAttribute("aria-pressed", String(chip.dataset.word ? state.outcome.has(chip.dataset.word) : !state.outcome.size));
    }
    address();
  };

  const chip = (word, label, count) => {
    const node = make("button", "chip");
    node.type = "button";
    if (word) { node.dataset.word = word; node.append(make("span", `dot ${tone(word)}`)); }
    put(node, make("span", "", label), make("b", "", String(count)));
    node.addEventListener("click", () => {
      if (!word) state.outcome.clear();
      else if (!state.outcome.delete(word)) state.outcome.add(word);
      filter();
    });
    $("outcomes").append(node);
  };
  chip("", "All", items.length);
  for (const [word, count] of Object.entries(isolated.outcomes).sort((a, b) => order(a[0]) - order(b[0]) || b[1] - a[1])) chip(word, words(word), count);

  // ---- evidence of one unit, made when it is opened
  const KIND = [[/^(diff --git|index |old mode|new mode|deleted file|new file|similarity|GIT binary|literal|delta)/, "d-meta"],
    [/^(\+\+\+|---) /, "d-file"], [/^@@/, "d-hunk"], [/^\+/, "d-add"], [/^-/, "d-del"]];
  const diff = (text, label) => {
    const pre = block("", label, "diff");
    for (const line of text.replace(/\n$/, "").split("\n")) {
      const kind = KIND.find(([pattern]) => pattern.test(line));
      pre.append(make("span", kind ? kind[1] : "", line || " "));
    }
    return pre;
  };
  const change = (path) => put(make("span"), (() => {
    const mark = make("span", `change ${path.change}`, { added: "A", modified: "M", deleted: "D", typechange: "T" }[path.change]);
    mark.title = path.change;
    return mark;
  })(), make("code", "", path.path));
  const finding = (found) => {
    const place = [found.path, found.line, found.column].filter((part) => part !== undefined).join(":");
    const node = make("div", `finding ${found.level || ""} ${found.inherited ? "inherited" : ""}`);
    put(node, put(make("p"), make("code", "", place), ` ${found.inherited ? "inherited " : ""}${found.level || ""} `, make("code", "", found.rule || "")));
    put(node, make("p", "", found.message || ""));
    for (const [label, key] of [["Named", "reference"], ["Searched", "searched"], ["Nearest", "nearest"], ["Next", "hint"]]) {
      const value = Array.isArray(found[key]) ? found[key].join(", ") : found[key];
      if (value) put(node, make("p", "soft", `${label}: ${typeof value === "object" ? JSON.stringify(value) : value}`));
    }
    return node;
  };
  const side = (title, text, base, absent) => {
    const pre = block("", title, "side");
    if (text === undefined) pre.append(make("span", "d-meta", absent));
    else {
      const known = new Set((base ?? "").split("\n"));
      for (const line of text.replace(/\n$/, "").split("\n")) pre.append(make("span", base !== undefined && !known.has(line) ? "differs" : "", line));
    }
    return put(make("div"), make("h4", "", title), pre);
  };
  const conflict = (found) => {
    const node = make("div");
    const reason = CLASHES[found.reason] || found.reason;
    put(node, put(make("p"), make("code", "", found.path), reason ? `: ${reason}` : ""));
    if (found.base !== undefined || found.ours !== undefined || found.theirs !== undefined) {
      put(node, put(make("div", "three"), side("Base", found.base, undefined, "not there"),
        side("Ours: the integration branch", found.ours, found.base, "deleted"), side("Theirs: this unit", found.theirs, found.base, "deleted")));
    }
    return node;
  };
  const detail = (unit) => {
    const more = evidence[unit.position] || {};
    const grid = make("div", "grid");
    const found = unit.findings || [];
    put(grid,
      pane("Why", false, make("p", "full", unit.reason), listing((unit.breaches || []).map((b) => make("span", "", b.message))),
        listing((unit.touched || []).map((t) => make("span", "", t.message))), unit.strays ? make("p", "soft", `Processes it left running: ${unit.strays.join(", ")}`) : null),
      pane(plural(unit.pathCount, "path"), false, listing(unit.paths.map(change)),
        unit.pathCount > unit.paths.length ? make("p", "soft", `and ${unit.pathCount - unit.paths.length} more`) : null,
        unit.ignoredCount ? make("p", "soft", `${plural(unit.ignoredCount, "ignored file")} left in the worktree`) : null,
        unit.leftOut ? make("p", "soft", `${plural(unit.leftOut.count, "file")} left out: ${unit.leftOut.sample.map((item) => item.path).join(", ")}${unit.leftOut.count > unit.leftOut.sample.length ? ", ..." : ""}`) : null),
      pane("Time", false, (() => {
        const spans = byUnit.get(unit.key) || [];
        if (!spans.length) return null;
        const box = make("div", "spans");
        for (const span of [...spans].sort((a, b) => a.startMs - b.startMs)) box.append(row(words(span.name), [span], took(span.durationMs)));
        return box;
      })()),
      more.observer ? pane("Observer's two clocks", false, pairs([["Seen, proves nothing", more.observer.activity], ["Proven progress", more.observer.progress], ["Suspect since", more.observer.suspect],
        ["Late writes", more.observer.late], ["Authority", more.observer.authority], ["Observer", more.observer.health], ["Last look", more.observer.looked], ["Not to be trusted", more.observer.problem]])) : null,
      found.length ? pane(plural(found.length, "finding"), true, ...found.map(finding)) : null,
      pane("Conflicts", true, ...(more.conflicts || unit.conflicts || []).map(conflict)),
      unit.verification ? pane("Verification", true, pairs([["Command", (unit.verification.argv || []).join(" "), true], ["Status", unit.verification.status], ["Took", took(unit.verification.durationMs)]]),
        more.verification ? block(more.verification, "What the verification printed") : null) : null,
      more.patch ? pane("Patch", true, diff(more.patch, "Patch"), more.patchCut ? make("p", "soft", `cut here; all of it is in ${unit.patchPath}`) : null) : null,
      more.stdout ? pane("Standard output", true, block(more.stdout, "Standard output"), more.stdoutCut ? make("p", "soft", `the last part of ${bytes(unit.stdoutBytes)}; all of it is in ${unit.stdoutPath}`) : null) : null,
      more.stderr ? pane("Standard error", true, block(more.stderr, "Standard error"), more.stderrCut ? make("p", "soft", `the last part of ${bytes(unit.stderrBytes)}; all of it is in ${unit.stderrPath}`) : null) : null,
      pane("Provenance", true, pairs([
        ["Command", (unit.argv || []).join(" "), true], ["Exit status", unit.exitStatus], ["Attempt", unit.attempt], ["Base", unit.base, true],
        ["Patch", unit.patchDigest, true], ["Patch size", unit.patchBytes === undefined ? undefined : bytes(unit.patchBytes)],
        ["Collected as", unit.patchCommit, true], ["Integrated on", unit.integratedOn, true], ["Integrated as", unit.integratedAs, true],
        ["Policy", unit.policyDigest, true], ["After", (unit.after || []).join(", ")], ["Worktree kept", unit.worktreePath, true]])),
    );
    const whole = put(cell("whole"), grid);
    whole.setAttribute("aria-colspan", String(COLUMNS.length));
    return put(cells("detail"), whole);
  };

  const toggle = (item, want) => {
    const open = item.open.getAttribute("aria-expanded") === "true";
    if (want === open) return;
    item.open.setAttribute("aria-expanded", String(!open));
    if (open) { item.detail.remove(); item.detail = null; }
    else { item.detail = detail(item.unit); item.tr.after(item.detail); }
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
    if (!item) return;
    item.tr.classList.add("current");
    item.open.focus({ preventScroll: true });
    item.tr.scrollIntoView({ block: "nearest" });
  };
  const step = (by, wanted) => {
    let at = state.current + (state.current < 0 && by < 0 ? items.length : 0);
    for (at += by; items[at]; at += by) if (items[at].shown && wanted(items[at].unit)) return select(at);
  };

  // ---- the address holds what is shown, so that a view can be sent to somebody
  let quiet = true;
  const address = () => {
    if (quiet) return;
    const parts = [];
    if (state.outcome.size) parts.push(`outcome=${[...state.outcome].map(encodeURIComponent).join(",")}`);
    if (state.query) parts.push(`q=${encodeURIComponent(state.query)}`);
    const open = items.filter((item) => item.detail).map((item) => item.unit.position);
    if (open.length) parts.push(`open=${open.join(",")}`);
    history.replaceState(null, "", parts.length ? `#${parts.join("&")}` : location.pathname + location.search);
  };
  const restore = () => {
    const asked = new URLSearchParams(location.hash.slice(1));
    for (const word of (asked.get("outcome") || "").split(",").filter((w) => w in isolated.outcomes)) state.outcome.add(word);
    state.query = (asked.get("q") || "").toLowerCase();
    $("search").value = state.query;
    return new Set((asked.get("open") || "").split(",").map(Number));
  };

  // ---- keys
  const clear = () => { state.outcome.clear(); state.query = ""; $("search").value = ""; filter(); };
  $("clear").addEventListener("click", clear);
  $("search").addEventListener("input", () => { state.query = $("search").value.trim().toLowerCase(); filter(); });
  const KEYS = {
    "/": () => { $("search").focus(); $("search").select(); },
    j: () => step(1, () => true),
    k: () => step(-1, () => true),
    n: () => step(1, (unit) => !GOOD.has(unit.outcome)),
  };
  ktx.keys(KEYS, clear);

  const open = restore();
  arrange();
  filter();
  for (const item of items) if (open.has(item.unit.position)) toggle(item, true);
  quiet = false;
  document.documentElement.dataset.ready = "true";
})();
