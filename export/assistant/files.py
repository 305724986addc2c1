"""Assistants of Gemma 4, which read keys and values in the cache of their target."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from edgedec.bundle.assistant_facts import GRAPH, AssistantFacts
from edgedec.bundle.drafter_manifest import ASSISTANT
from edgedec.bundle.manifest import Manifest
from edgedec.core.cache_kinds import Keys
from edgedec.core.errors import UnsupportedError
from edgedec.core.progress import Progress
from edgedec.core.rows import Rows
from edgedec.disk.listed_files import Scalar
from edgedec.export.assistant.gguf import assistant_gguf
from edgedec.export.assistant.graph import build_graph
from edgedec.export.assistant.sizes import MODEL_TYPE, AssistantSizes
from edgedec.export.assistant.source import TABLE, AssistantSource, open_assistant
from edgedec.export.draft_head.target import embedding_table, last_norm
from edgedec.export.drafters.agreement import TokenAgreement
from edgedec.export.drafters.interface import DrafterFiles, GgufForm, NewDrafter, StoredDrafter
from edgedec.export.gguf_source import GgufSource
from edgedec.export.huggingface.files import read_object
from edgedec.export.interface import HEAD_K
from edgedec.export.model import CACHE, RINGS, ExportModel
from edgedec.export.own_texts import opened_target, own_texts
from edgedec.export.passes.attach_bodies import AttachBodies
from edgedec.export.passes.externalise_weights import ExternaliseWeights
from edgedec.export.passes.infra import run_passes
from edgedec.export.stored import GraphMatrix
from edgedec.export.tensors import Tensors


class AssistantFiles(DrafterFiles):
    """See ``DrafterFiles``."""

    def in_directory(self, path: Path) -> bool:
        """See ``DrafterFiles``."""
        return read_object(path / "config.json").get("model_type") == MODEL_TYPE

    @contextmanager
    def opened(self, path: Path, bundle: Path, target: Manifest, quant: str) -> Iterator[NewDrafter]:
        """See ``DrafterFiles``."""
        table = embedding_table(bundle)
        with open_assistant(path, quant) as weights:
            caches = _caches(weights.sizes, target)
            model = build_graph(
                weights.sizes, Tensors(weights), table, last_norm(bundle), caches, weights.ordering
            )
            run_passes(model, (AttachBodies(), ExternaliseWeights()))
            stated, made = asdict(_facts(weights, table, model)), {"made with": MODEL_TYPE}
            yield NewDrafter(
                kind=ASSISTANT, model=model, graph=GRAPH, source=weights, stated=stated, made=made
            )

    def agreement(
        self, folder: Path, facts: Mapping[str, Scalar], bundle: Path, progress: Progress
    ) -> TokenAgreement:
        """See ``DrafterFiles``."""
        from edgedec.backends.onnx.assistant_forward import AssistantModel

        last = Manifest.load(bundle).spec.n_layers - 1
        model, forward = opened_target(bundle, (last,))
        if forward.lent is None:
            raise UnsupportedError(f"{model.name} does not let an assistant read its KV cache")
        sizes = AssistantFacts.of(facts)
        steps = AssistantModel(folder, bundle, sizes, threads=model.threads).steps(forward.lent)
        hits = count = 0
        for text in own_texts(model, forward, (last,), progress):
            forward.rewind(0)
            forward.extend(text.tokens[: text.prompt], rows=Rows(()))
            for place in range(text.prompt, len(text.tokens) - 1):
                tap = text.hidden[place - 1]
                found = steps.step(text.tokens[place], position=place, slots=place, tap=tap)
                hits += int(found.rows.ids[0, 0] == text.tokens[place + 1])
                count += 1
                forward.extend(text.tokens[place : place + 1], rows=Rows(()))
        return TokenAgreement(hits, count)

    def gguf(self, drafter: StoredDrafter, source: GgufSource, name: str) -> GgufForm:
        """See ``DrafterFiles``."""
        return assistant_gguf(drafter, source, name)


def _caches(sizes: AssistantSizes, manifest: Manifest) -> dict[str, Keys]:
    """Return the keys of the target that the layers read, by the graph's inputs. Raises UnsupportedError."""
    spec = manifest.spec
    if sizes.target_hidden != spec.hidden_size:
        raise UnsupportedError(
            f"the assistant is for hidden states of {sizes.target_hidden} numbers, and {spec.name} has "
            f"{spec.hidden_size}"
        )
    keys = {kind.name: kind for kind in spec.kinds if isinstance(kind, Keys)}
    dims = {CACHE: sizes.head_dim, RINGS: sizes.local_head_dim}
    used = {RINGS if window else CACHE for window in sizes.windows}
    for name in sorted(used):
        if name not in keys:
            raise UnsupportedError(f"{spec.name} has no layers of a kind that the assistant reads")
        if keys[name].head_dim != dims[name] or sizes.heads % keys[name].kv_heads:
            raise UnsupportedError(
                f"the assistant reads keys of {dims[name]} numbers, and {spec.name} has "
                f"{keys[name].head_dim} in {keys[name].kv_heads} heads"
            )
    return {name: one for name, one in keys.items() if name in used}


def _facts(source: AssistantSource, table: GraphMatrix, model: ExportModel) -> AssistantFacts:
    sizes, vocab = source.sizes, source.tensors[TABLE].shape[0]
    scored = vocab // sizes.centroids * sizes.chosen if sizes.centroids else vocab
    return AssistantFacts(
        target_hidden=sizes.target_hidden,
        hidden=sizes.hidden,
        heads=sizes.heads,
        head_dim=max(sizes.head_dim, sizes.local_head_dim),
        ffn=sizes.ffn,
        ids=vocab,
        scored=scored,
        head_k=min(HEAD_K, scored),
        head_bytes=model.weights[TABLE].nbytes,
        table_offset=table.offset,
        table_tiles=table.tiles,
        table_tile_bytes=table.tile_bytes,
    )
