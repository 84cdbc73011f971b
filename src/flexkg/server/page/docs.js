// The OpenAPI description as a page.

import { byId, make } from "./dom.js";

const named = (schema) => (schema?.$ref ? schema.$ref.split("/").at(-1) : "");

function type(schema) {
  if (!schema) return "";
  if (schema.$ref) return named(schema);
  if (schema.anyOf) return schema.anyOf.map(type).join(" or ");
  if (schema.type === "array") return `list of ${type(schema.items)}`;
  return schema.type ?? "anything";
}

function table(caption, rows) {
  if (rows.length === 0) return null;
  return make(
    "table",
    {},
    make("caption", { text: caption }),
    make("tbody", {}, rows.map((cells) => make("tr", {}, cells.map((text, index) =>
      make(index ? "td" : "th", index ? { text } : { scope: "row" }, index ? [] : make("code", { text })))))),
  );
}

const fields = (schema) =>
  Object.entries(schema?.properties ?? {}).map(([name, field]) => [
    name,
    type(field) + (schema.required?.includes(name) ? "" : `, ${JSON.stringify(field.default ?? null)} unless given`),
    field.description ?? "",
  ]);

function route(api, path, method, about) {
  const schemas = api.components.schemas;
  const body = schemas[named(about.requestBody?.content?.["application/json"]?.schema)];
  const reply = schemas[named(about.responses["200"]?.content?.["application/json"]?.schema)];
  const parameters = (about.parameters ?? []).map((field) => [
    field.name,
    `${type(field.schema)}, ${JSON.stringify(field.schema.default ?? null)} unless given`,
    field.description ?? "",
  ]);
  const errors = Object.entries(about.responses).filter(([status]) => status !== "200");
  return make(
    "section",
    { class: "card" },
    make("h2", {}, make("code", { text: `${method.toUpperCase()} ${path}` })),
    make("p", { text: about.description ?? "" }),
    table("Parameters", parameters),
    table("Body", fields(body)),
    table("Reply", fields(reply).map(([name, kind, words]) => [name, kind.replace(/, null unless given$/, ", or left out"), words])),
    make("details", {}, make("summary", { text: "Errors" }), table("Statuses", errors.map(([status, error]) => [status, error.description]))),
  );
}

const api = await (await fetch("/openapi.json")).json();
byId("routes").replaceChildren(
  ...Object.entries(api.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, about]) => route(api, path, method, about))),
);
document.body.dataset.ready = "true";
