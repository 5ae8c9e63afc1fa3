// What the pages of Backstory do beyond htmx: answers that arrive event by event, the passage beside them, and drops.
"use strict";

const find = name => document.getElementById(name);

// ----- Asking

const form = find("ask");
let asking = null;

async function* readEvents(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const {done, value} = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n\n");
    rest = parts.pop();
    for (const part of parts) {
      const name = /^event: (.*)$/m.exec(part);
      const data = /^data: (.*)$/m.exec(part);
      if (name && data) yield [name[1], JSON.parse(data[1])];
    }
  }
}

function tell(text) {
  const progress = find("progress");
  progress.hidden = !text;
  progress.textContent = text;
}

function showNotice(html, text) {
  const notice = find("notice");
  notice.replaceChildren();
  if (html) {
    notice.innerHTML = html;
    htmx.process(notice);
  } else if (text) {
    const line = document.createElement("p");
    line.className = "notice";
    line.textContent = text;
    notice.append(line);
  }
  if (html || text) notice.scrollIntoView({block: "nearest"});
}

function finish(data) {
  const turns = find("turns");
  turns.insertAdjacentHTML("beforeend", data.html);
  const turn = turns.lastElementChild;
  htmx.process(turn);
  form.elements.conversation.value = data.conversation;
  form.elements.question.value = "";
  document.querySelector(".talk-head").outerHTML = data.head;
  document.title = `${document.querySelector("h1").textContent} · Backstory`;
  history.replaceState(null, "", data.address);
  // Whoever listens hears the question with its answer; whoever types stays where they are.
  turn.scrollIntoView({block: "start"});
  turn.focus({preventScroll: true});
  htmx.trigger("#history", "asked");
}

function follow(name, data) {
  if (name === "step") {
    tell(`${data.text} …`);
  } else if (name === "tokens") {
    const arriving = find("arriving");
    arriving.hidden = false;
    arriving.textContent += data.text;
  } else if (name === "done") {
    finish(data);
  } else if (name === "error") {
    showNotice(data.html, data.error ? data.error.message : "");
  }
  return name === "done" || name === "error";
}

async function ask() {
  asking = new AbortController();
  const {signal} = asking;
  showNotice();
  tell("Sending the question …");
  find("stop").hidden = false;
  form.setAttribute("aria-busy", "true");
  try {
    const response = await fetch(form.action, {
      method: "POST",
      headers: {Accept: "text/event-stream"},
      body: new URLSearchParams(new FormData(form)),
      signal,
    });
    if (response.status === 401) {
      location.assign(response.headers.get("HX-Redirect") ?? "/sign-in");
      return;
    }
    const type = response.headers.get("Content-Type") ?? "";
    if (type.startsWith("text/event-stream")) {
      let ended = false;
      for await (const [name, data] of readEvents(response.body)) ended = follow(name, data);
      if (!ended) showNotice("", "The answer broke off. Ask again.");
    } else if (type.startsWith("text/html")) {
      showNotice(await response.text());
    } else {
      showNotice("", "The service cannot answer at present. Ask again in a while.");
    }
  } catch (error) {
    if (!signal.aborted) showNotice("", "The service cannot be reached. Ask again in a while.");
  } finally {
    asking = null;
    tell("");
    find("stop").hidden = true;
    find("arriving").hidden = true;
    find("arriving").textContent = "";
    form.removeAttribute("aria-busy");
  }
}

if (form) {
  form.addEventListener("submit", event => {
    event.preventDefault();
    if (!asking && form.elements.question.value.trim()) ask();
  });
  form.elements.question.addEventListener("keydown", event => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      form.requestSubmit();
    }
  });
  const stop = find("stop");
  stop?.addEventListener("click", () => {
    asking?.abort();
    form.elements.question.focus();
  });
}

// ----- The passage beside the answer

const panel = find("passage");
let opener = null;

function closePassage() {
  panel.hidden = true;
  panel.replaceChildren();
  opener?.focus();
  opener = null;
}

if (panel) {
  document.body.addEventListener("htmx:beforeRequest", event => {
    if (event.target.matches("[data-passage]")) opener = event.target;
  });
  document.body.addEventListener("htmx:afterSwap", event => {
    if (event.detail.target !== panel) return;
    panel.hidden = false;
    panel.querySelector("h2").focus({preventScroll: true});
    showMark(panel);
  });
  panel.addEventListener("click", event => {
    if (event.target.closest("[data-close]")) closePassage();
  });
  document.addEventListener("keydown", event => {
    if (event.key === "Escape" && !panel.hidden) closePassage();
  });
}

function showMark(within) {
  const mark = within.querySelector("mark");
  const text = mark?.closest(".text");
  if (text) text.scrollTop += mark.getBoundingClientRect().top - text.getBoundingClientRect().top - 60;
}
showMark(document);

// ----- Uploads

const upload = find("upload");
if (upload) {
  const files = find("files");
  const drop = upload.querySelector(".drop");
  const sent = find("sent");
  for (const name of ["dragover", "dragleave", "drop"]) {
    drop.addEventListener(name, event => {
      event.preventDefault();
      drop.classList.toggle("over", name === "dragover");
    });
  }
  drop.addEventListener("drop", event => {
    if (!event.dataTransfer.files.length) return;
    files.files = event.dataTransfer.files;
    upload.requestSubmit();
  });
  upload.addEventListener("htmx:beforeRequest", () => {
    find("notice").replaceChildren();
    find("uploaded").replaceChildren();
    sent.hidden = false;
    sent.value = 0;
  });
  upload.addEventListener("htmx:xhr:progress", event => {
    if (event.detail.lengthComputable) sent.value = 100 * event.detail.loaded / event.detail.total;
  });
  upload.addEventListener("htmx:afterRequest", event => {
    sent.hidden = true;
    if (event.detail.successful) upload.reset();
  });
}

// What htmx cannot send must not look as if it was done.
for (const name of ["htmx:sendError", "htmx:timeout"]) {
  document.body.addEventListener(name, () => showNotice("", "The service cannot be reached. Try again in a while."));
}
