// The routes of the server. An error of the server is thrown as Problem.

import { byId } from "./dom.js";

export class Problem extends Error {
  constructor(error) {
    super(error.message);
    Object.assign(this, error);
  }
}

let token = sessionStorage.getItem("flexkg-token");

function ask_for_token() {
  const dialog = byId("token-dialog");
  if (!dialog.open) dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      token = byId("token").value;
      sessionStorage.setItem("flexkg-token", token);
      resolve();
    }, { once: true });
  });
}

async function call(path, options = {}) {
  const headers = { ...options.headers };
  if (token) headers.Authorization = `Bearer ${token}`;
  let reply;
  try {
    reply = await fetch(path, { ...options, headers });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem({ kind: "network", message: "The server cannot be reached.", hint: "Is it still running?" });
  }
  if (reply.status === 401) {
    await ask_for_token();
    return call(path, options);
  }
  let content;
  try {
    content = await reply.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem({ kind: "network", message: "The server gave no readable reply.", hint: null });
  }
  if (!reply.ok) throw new Problem(content.error);
  return content;
}

const post = (path, body, signal) =>
  call(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), signal });

export const info = () => call("/v1/info");
export const check = (query, signal) => post("/v1/check", { query }, signal);
export const ask = (query, top, signal) => post("/v1/ask", { query, top, explain: true }, signal);

export async function complete(kind, prefix, signal) {
  const found = await call(`/v1/${kind}?limit=8&prefix=${encodeURIComponent(prefix)}`, { signal });
  return found[kind];
}
