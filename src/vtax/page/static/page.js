// Everything on these pages works without this file. It saves loading them again: what is being prepared is asked for
// until it is there, and a live run is followed by server-sent events.
"use strict";

const SELECTOR = "[data-preparing]";

async function poll() {
  let response, text;
  try {
    response = await fetch(location.href, { headers: { Accept: "text/html" } });
    text = await response.text();
  } catch {
    setTimeout(poll, 3000); // the server is started again, or the machine slept
    return;
  }
  if (response.status === 202) {
    setTimeout(poll, 700);
    return;
  }
  const page = new DOMParser().parseFromString(text, "text/html");
  const main = page.querySelector("main");
  if (main) document.querySelector("main").replaceWith(document.adoptNode(main));
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
document.querySelectorAll("form[data-submits] select").forEach((each) =>
  each.addEventListener("change", () => each.form.requestSubmit()));
