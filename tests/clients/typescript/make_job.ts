// Makes a job with types that come from the OpenAPI document, and prints its name and the next instant.
import createClient from "openapi-fetch";
import type { paths } from "./schema.d.ts";

declare const process: { argv: string[] };

const client = createClient<paths>({ baseUrl: process.argv[2] });
const { data, error } = await client.POST("/api/v1/jobs", {
  body: {
    name: "from-typescript",
    schedule: "0 9 * * 1-5",
    timezone: "Europe/Paris",
    target: { type: "http", url: "https://example.com/hook" },
  },
});
if (error !== undefined) {
  throw new Error(error.detail);
}
if (data === undefined || "dry_run" in data) {
  throw new Error("no job was made");
}
console.log(data.name, data.words, data.totals.succeeded);
