"use strict";
// Search in a site that was opened from files: a browser starts no worker from them, so the worker's script runs in a frame.
(() => {
  if (location.protocol !== "file:") return;
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      this.waiting = [];
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.inside = frame.contentWindow;
      const load = (from) => new Promise((done, failed) => {
        const script = this.inside.document.createElement("script");
        Object.assign(script, { src: from, onload: done, onerror: failed });
        this.inside.document.head.append(script);
      });
      this.inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      this.inside.importScripts = (...all) => all.reduce((before, one) => before.then(() => load(new URL(one, address).href)), Promise.resolve());
      load(new URL(address, location.href).href).then(() => {
        const waiting = this.waiting;
        this.waiting = null;
        for (const data of waiting) this.postMessage(data);
      });
    }

    postMessage(data) {
      if (this.waiting) this.waiting.push(data);
      else this.inside.dispatchEvent(new this.inside.MessageEvent("message", { data }));
    }

    terminate() { this.inside.frameElement.remove(); }
  };
})();
