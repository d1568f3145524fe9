"""The string half of the moderator's graph: title → numbers of its words, by ONNX operators alone.

Titles are split at spaces; ASCII letters are lowered, others stay (the C locale, so that no container needs another);
a word is known with one trailing punctuation mark or none. Needs ONNX opset 20 for the string operators.
"""

from __future__ import annotations

from collections.abc import Mapping

import onnx
from onnx import TensorProto, helper

OPSET = 20
ML_OPSET = 3
# joined to every title, so that a batch of empty ones has one word; its number is that of padding
END = " </s>"


def title_graph(vocabulary: Mapping[str, int], *, ir_version: int) -> onnx.ModelProto:
    """Give `title` STRING (N, 1) → `words` INT64 (N, T): 0 is padding, 1 any unknown word."""
    nodes = [
        helper.make_node("Reshape", ["title", "one_axis"], ["titles"]),
        helper.make_node("StringNormalizer", ["titles"], ["lowered"], case_change_action="LOWER", locale="C"),
        helper.make_node("StringConcat", ["lowered", "end"], ["ended"]),
        helper.make_node("StringSplit", ["ended"], ["split", "counts"]),
        helper.make_node(
            "LabelEncoder",
            ["split"],
            ["words"],
            domain="ai.onnx.ml",
            keys_strings=["", END.strip(), *vocabulary],
            values_int64s=[0, 0, *vocabulary.values()],
            default_int64=1,
        ),
    ]
    graph = helper.make_graph(
        nodes,
        "title",
        [helper.make_tensor_value_info("title", TensorProto.STRING, ["N", 1])],
        [helper.make_tensor_value_info("words", TensorProto.INT64, ["N", "T"])],
        [
            helper.make_tensor("one_axis", TensorProto.INT64, [1], [-1]),
            helper.make_tensor("end", TensorProto.STRING, [1], [END.encode()]),
        ],
    )
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", ML_OPSET)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=ir_version)


def join(titles: onnx.ModelProto, network: onnx.ModelProto) -> onnx.ModelProto:
    """Feed the words into the network's input `words`; inputs become `image`, `title` in this order."""
    joined: onnx.ModelProto = onnx.compose.merge_models(
        onnx.compose.add_prefix(titles, "title/", rename_inputs=False, rename_outputs=False),
        network,
        io_map=[("words", "words")],
        name="content_moderator",
        producer_name=network.producer_name,
        producer_version=network.producer_version,
    )
    inputs = sorted(joined.graph.input, key=lambda value: ("image", "title").index(value.name))
    del joined.graph.input[:]
    joined.graph.input.extend(inputs)
    return joined
