// The decode step in node: reads one JSON request per line, answers one JSON line. See wasm_step.py.
import { closeSync, openSync, readFileSync, readSync } from "node:fs";
import { createInterface } from "node:readline";

let exported, steps, position = 0;

const answer = {
  async load({ module }) {
    const { instance } = await WebAssembly.instantiate(readFileSync(module), {});
    exported = instance.exports;
    return { heap_base: exported.__heap_base.value, version: process.version };
  },

  prepare({ data, ranges, memory, steps: wanted }) {
    const missing = memory - exported.memory.buffer.byteLength;
    if (missing > 0) exported.memory.grow(Math.ceil(missing / 65536));
    const bytes = new Uint8Array(exported.memory.buffer);
    const file = openSync(data);
    for (const [address, nbytes] of ranges) {
      for (let done = 0; done < nbytes; ) done += readSync(file, bytes, address + done, nbytes - done);
    }
    closeSync(file);
    const bound = ([kind, ...rest]) => {
      if (kind === "copy") return () => bytes.copyWithin(rest[0], rest[1], rest[1] + rest[2]);
      const kernel = exported[rest[0]], values = rest[1];
      return () => kernel(...values);
    };
    steps = wanted.map((operations) => operations.map(bound));
    return {};
  },

  sample({ calls }) {
    const step = () => {
      for (const operation of steps[position++ % steps.length]) operation();
    };
    step();
    const start = process.hrtime.bigint();
    for (let i = 0; i < calls; i++) step();
    return { ns: Number(process.hrtime.bigint() - start) / calls };
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
