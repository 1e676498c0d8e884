// A placed work in node (V8): one JSON request per line, one JSON line back. See node_step.py.
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";

let exported, calls, resets;

const answer = {
  async load({ module }) {
    const { instance } = await WebAssembly.instantiate(readFileSync(module), {});
    exported = instance.exports;
    return { heap_base: exported.__heap_base.value, version: process.version };
  },

  prepare({ data, ranges, fresh, memory, calls: wanted }) {
    const missing = memory - exported.memory.buffer.byteLength;
    if (missing > 0) exported.memory.grow(Math.ceil(missing / 65536));
    const file = readFileSync(data), bytes = new Uint8Array(exported.memory.buffer);
    let from = 0;
    const next = (nbytes) => file.subarray(from, (from += nbytes));
    for (const [address, nbytes] of ranges) bytes.set(next(nbytes), address);
    resets = fresh.map(([address, nbytes]) => [next(nbytes), address]);
    calls = wanted.map(([kernel, values]) => () => exported[kernel](...values));
    return {};
  },

  sample({ count }) {
    const bytes = new Uint8Array(exported.memory.buffer);
    const start = process.hrtime.bigint();
    for (let i = 0; i < count; i++) {
      for (const [from, address] of resets) bytes.set(from, address);
      for (const call of calls) call();
    }
    return { seconds: Number(process.hrtime.bigint() - start) / 1e9 / count };
  },

  read({ address, nbytes }) {
    return { bytes: Buffer.from(exported.memory.buffer, address, nbytes).toString("base64") };
  },
};

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
