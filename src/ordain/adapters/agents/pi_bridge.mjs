// An extension for pi that brings in the tools of one MCP server on stdio. It is named by the file ORDAIN_STEP_SERVER
// with its name, command, args and env. Where it cannot be reached, pi does not start.
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";

export default async function (pi) {
  const { name, command, args, env } = JSON.parse(readFileSync(process.env.ORDAIN_STEP_SERVER, "utf8"));
  const server = spawn(command, args, { env: { ...process.env, ...env }, stdio: ["pipe", "pipe", "inherit"] });
  const open = new Map();
  let next = 1;
  let rest = "";

  const end = (why) => {
    for (const { reject } of open.values()) reject(new Error(`the server of this step has ended: ${why}`));
    open.clear();
  };
  const heard = (line) => {
    const message = JSON.parse(line);
    const waiting = "method" in message ? undefined : open.get(message.id);
    if (!waiting) return;
    open.delete(message.id);
    if (message.error) waiting.reject(new Error(message.error.message));
    else waiting.resolve(message.result);
  };
  server.stdout.setEncoding("utf8");
  server.stdout.on("data", (text) => {
    const lines = (rest + text).split("\n");
    rest = lines.pop();
    lines.filter((line) => line.trim()).forEach(heard);
  });
  server.stdin.on("error", (error) => end(error.message));
  server.on("error", (error) => end(error.message));
  server.on("exit", (status) => end(`exit status ${status}`));

  const tell = (message) => server.stdin.write(JSON.stringify({ jsonrpc: "2.0", ...message }) + "\n");
  const ask = (method, params) =>
    new Promise((resolve, reject) => {
      const id = next++;
      open.set(id, { resolve, reject });
      tell({ id, method, params });
    });
  const text = (result) => result.content.map((part) => part.text ?? JSON.stringify(part)).join("\n");

  const clientInfo = { name: "pi", version: "0" };
  await ask("initialize", { protocolVersion: "2025-06-18", capabilities: {}, clientInfo });
  tell({ method: "notifications/initialized" });
  for (let cursor; ; ) {
    const page = await ask("tools/list", cursor ? { cursor } : {});
    for (const tool of page.tools) {
      pi.registerTool({
        name: `${name}_${tool.name}`,
        label: tool.title ?? tool.name,
        description: tool.description ?? "",
        parameters: tool.inputSchema,
        async execute(_id, given) {
          const result = await ask("tools/call", { name: tool.name, arguments: given });
          if (result.isError) throw new Error(text(result));
          return { content: [{ type: "text", text: text(result) }], details: {} };
        },
      });
    }
    cursor = page.nextCursor;
    if (!cursor) break;
  }
  pi.on("session_shutdown", () => {
    server.stdin.end();
    server.kill();
  });
}
