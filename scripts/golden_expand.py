"""Write a copy of a GGUF file with every weight expanded to float32.

    python scripts/golden_expand.py MODEL.gguf EXPANDED.gguf

llama.cpp multiplies block-quantised weights with activations that it rounds to int8. On the copy it
has float32 on both sides, which separates that rounding from everything else.
"""

from __future__ import annotations

import sys

import gguf

from tq_core.model.gguf_file import GgufFile

SKIPPED = ("GGUF.version", "GGUF.tensor_count", "GGUF.kv_count", "general.architecture", "general.file_type")


def expand(source: str, target: str) -> None:
    """Copy metadata as it is and tensors as float32."""
    checked = GgufFile.read(source)
    writer = gguf.GGUFWriter(target, checked.metadata("general.architecture", str))
    for key, field in gguf.GGUFReader(source).fields.items():
        if key in SKIPPED:
            continue
        if field.types[0] == gguf.GGUFValueType.ARRAY:
            writer.add_array(key, field.contents())
        else:
            writer.add_key_value(key, field.contents(), field.types[0])
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    for name in checked.header.tensors:
        writer.add_tensor(name, checked.tensor(name))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python scripts/golden_expand.py MODEL.gguf EXPANDED.gguf")
    expand(sys.argv[1], sys.argv[2])
