// Everything on these pages works without this file. It saves loading them again: what is being prepared is asked for
// until it is there, and a live run is followed by server-sent events.
"use strict";

const SELECTOR = "[data-preparing]";

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function poll() {
  for (;;) {
    let response, text;
    try {
      response = await fetch(location.href, { headers: { Accept: "text/html" } });
      text = await response.text();
    } catch {
      await pause(3000); // the server is started again, or the machine slept
      continue;
    }
    const main = new DOMParser().parseFromString(text, "text/html").querySelector("main");
    const shown = document.querySelector("main");
    const isDone = response.status !== 202;
    const has = (page) => page.querySelector(".document")?.childElementCount > 0;
    if (main && (isDone || (has(main) && !has(shown)))) shown.replaceWith(document.adoptNode(main));
    if (isDone) return;
    await pause(700);
  }
}

// One answer after the other: each is read from all figures of its run.
async function fillAnswers(places) {
  for (const place of places) {
    for (;;) {
      const response = await fetch(place.dataset.answer).catch(() => null);
      if (response?.status === 202) {
        await pause(500);
        continue;
      }
      if (response?.ok) place.innerHTML = await response.text();
      break;
    }
  }
}

// The platforms of a side are those of its run; B without a run is of the run of A.
function offerPlatforms({ elements }) {
  const platformsOf = (run) => JSON.parse(run.selectedOptions[0]?.dataset.platforms ?? "null");
  for (const side of ["a", "b"]) {
    const platforms = platformsOf(elements[side]) ?? platformsOf(elements.a);
    if (!platforms) continue;
    const menu = elements[`${side}_platform`], chosen = menu.value;
    const options = platforms.map((each) => new Option(each, each, false, each === chosen));
    menu.replaceChildren(menu.options[0], ...options);
  }
}

function follow(live) {
  const source = new EventSource(live.dataset.events);
  const replace = (id) => (event) => {
    document.getElementById(id).innerHTML = event.data;
  };
  source.addEventListener("state", replace("now"));
  source.addEventListener("estimates", replace("estimates"));
  source.addEventListener("error", () => {
    // refused, such as by a server with too many streams; a broken stream is opened again by the browser
    if (source.readyState === EventSource.CLOSED) setTimeout(() => location.reload(), 5000);
  });
  source.addEventListener("end", () => {
    source.close();
    location.reload();
  });
}

if (document.querySelector(SELECTOR)) setTimeout(poll, 300);
const live = document.querySelector("[data-events]");
if (live) follow(live);
document.querySelectorAll("select[data-submits]").forEach((each) =>
  each.addEventListener("change", () => each.form.requestSubmit()));
document.querySelectorAll("form[data-offers]").forEach((form) => {
  form.addEventListener("change", () => offerPlatforms(form));
  offerPlatforms(form);
});
fillAnswers(document.querySelectorAll("[data-answer]"));
