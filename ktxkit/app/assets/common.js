"use strict";
// What the pages share: making elements as text, numbers for people, colours, keys.
const ktx = (() => {
  const $ = (id) => document.getElementById(id);
  const make = (tag, cls, text) => {
    const node = document.createElement(tag);
    if (cls) node.className = cls;
    if (text !== undefined) node.textContent = text;
    return node;
  };
  const put = (parent, ...children) => { parent.append(...children.filter(Boolean)); return parent; };
  const words = (word) => word.replaceAll("_", " ");
  const plural = (n, one, many) => `${n} ${n === 1 ? one : many || one + "s"}`;
  const short = (id) => id ? id.slice(0, 12) : "";
  const took = (ms) => {
    if (ms === undefined) return "";
    if (ms < 999.5) return `${Math.round(ms)} ms`;
    if (ms < 99950) return `${(ms / 1000).toFixed(1)} s`;
    const s = Math.round(ms / 1000), m = Math.floor(s / 60);
    return m < 100 ? `${m} min ${String(s % 60).padStart(2, "0")} s` : `${Math.floor(m / 60)} h ${String(m % 60).padStart(2, "0")} min`;
  };
  const bytes = (n) => n < 1000 ? `${n} B` : n < 1e6 ? `${(n / 1e3).toFixed(1)} kB` : `${(n / 1e6).toFixed(1)} MB`;

  const pane = (title, wide, ...children) => children.some(Boolean) ? put(make("section", wide ? "pane wide" : "pane"), make("h3", "", title), ...children) : null;
  const pairs = (list) => {
    const dl = make("dl", "pairs");
    for (const [name, value, mono] of list) {
      if (value !== undefined && value !== "") put(dl, make("dt", "", name), put(make("dd"), make(mono ? "code" : "span", "", String(value))));
    }
    return dl.children.length ? dl : null;
  };
  const listing = (nodes) => nodes.length ? put(make("ul", "plain"), ...nodes.map((node) => put(make("li"), node))) : null;
  const block = (text, label, cls) => {
    const pre = make("pre", cls || "", cls ? undefined : text);
    pre.tabIndex = 0;
    pre.setAttribute("role", "region");
    pre.setAttribute("aria-label", label);
    return pre;
  };

  // ---- colours: the system's, dark, light; paper is light
  const THEMES = ["auto", "dark", "light"];
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  let theme = 0;
  const paint = () => {
    const name = THEMES[theme];
    document.documentElement.dataset.theme = name === "auto" ? (system.matches ? "dark" : "light") : name;
    const shown = { auto: "Auto", dark: "Dark", light: "Light" }[name];
    $("theme").textContent = `Colours: ${shown.toLowerCase()}`;
  };
  system.addEventListener("change", paint);
  window.addEventListener("beforeprint", () => { document.documentElement.dataset.theme = "light"; });
  window.addEventListener("afterprint", paint);
  $("theme").addEventListener("click", () => { theme = (theme + 1) % THEMES.length; paint(); });
  $("help").addEventListener("click", () => $("keys").showModal());
  paint();

  // ---- keys: none where a person types, none with a modifier
  const keys = (own, clear) => {
    const all = { "?": () => $("keys").showModal(), t: () => $("theme").click(), Escape: clear, ...own };
    document.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || $("keys").open) return;
      const typing = event.target instanceof HTMLInputElement;
      if (typing && event.key === "Escape") { clear(); event.target.blur(); return; }
      if (typing || !(event.key in all)) return;
      event.preventDefault();
      all[event.key]();
    });
  };
  return { $, make, put, words, plural, short, took, bytes, pane, pairs, listing, block, keys };
})();
