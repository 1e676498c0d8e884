// One JSON request per line in, one JSON line back, until the input ends. The other side is LineProcess in Python.
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";

// answer: op -> function of the request; what it throws is told and ends nothing.
export async function answerLines(answer) {
  for await (const line of createInterface({ input: process.stdin })) {
    const request = JSON.parse(line);
    let reply;
    try {
      reply = await answer[request.op](request);
    } catch (error) {
      reply = { error: `${error.name}: ${error.message}` };
    }
    process.stdout.write(JSON.stringify(reply) + "\n");
  }
}

// A module's exports, its memory grown on demand, and bytes of it as text.
export class Loaded {
  async load(module) {
    const { instance } = await WebAssembly.instantiate(readFileSync(module), {});
    this.exported = instance.exports;
    return { heap_base: this.exported.__heap_base.value, version: process.version };
  }

  // All of the memory, at least ``memory`` bytes of it.
  bytes(memory = 0) {
    const missing = memory - this.exported.memory.buffer.byteLength;
    if (missing > 0) this.exported.memory.grow(Math.ceil(missing / 65536));
    return new Uint8Array(this.exported.memory.buffer);
  }

  read({ address, nbytes }) {
    return { bytes: Buffer.from(this.exported.memory.buffer, address, nbytes).toString("base64") };
  }
}
