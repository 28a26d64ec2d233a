// Asks for the page again when something has changed, and replaces the marked parts that nobody is working in.
// One question at a time, and a page that takes long is asked for less often.
"use strict";
(() => {
  const feed = new EventSource(document.currentScript.dataset.feed);
  let isAsking = false;
  let isOld = false;
  const ask = async () => {
    const answer = await fetch(location.href, { headers: { Accept: "text/html", "X-Looks-On": "1" } });
    if (!answer.ok || answer.redirected) return;
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const part of document.querySelectorAll("[data-live]")) {
      const other = fresh.querySelector(`[data-live="${part.dataset.live}"]`);
      if (other && !part.contains(document.activeElement) && part.innerHTML !== other.innerHTML) {
        part.replaceChildren(...other.childNodes);
      }
    }
  };
  feed.addEventListener("changed", async () => {
    isOld = true;
    if (isAsking) return;
    isAsking = true;
    while (isOld) {
      isOld = false;
      const began = performance.now();
      await ask().catch(() => {});
      await new Promise((done) => setTimeout(done, 4 * (performance.now() - began)));
    }
    isAsking = false;
  });
})();
