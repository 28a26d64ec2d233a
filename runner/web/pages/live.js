// Asks for the page again when something has changed, and replaces the marked parts that nobody is working in.
"use strict";
(() => {
  const feed = new EventSource(document.currentScript.dataset.feed);
  feed.addEventListener("changed", async () => {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
    if (!answer.ok || answer.redirected) return;
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const part of document.querySelectorAll("[data-live]")) {
      const other = fresh.querySelector(`[data-live="${part.dataset.live}"]`);
      if (other && !part.contains(document.activeElement) && part.innerHTML !== other.innerHTML) {
        part.replaceChildren(...other.childNodes);
      }
    }
  });
})();
