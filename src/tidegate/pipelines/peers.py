"""Whether a source has run too far ahead of those it must agree with, as the ledger knows them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tidegate.ledger.contract import Store
from tidegate.pipelines.documents import PipelineDocument, read_state
from tidegate.progress.drift import Bound, Drift, drift_or_wait
from tidegate.progress.watermarks import Watermark
from tidegate.sources import advances
from tidegate.sources.specs import ExternalSpec, SourceSpec


def drift_now(
    store: Store,
    source: str,
    bounds: Sequence[Bound],
    sources: Mapping[str, SourceSpec],
    readers: Mapping[str, Sequence[str]],
) -> Drift:
    """Whether the source waits for others now. `readers` are the names of the pipelines over each source.

    A source has come as far as all its pipelines have published, and one without pipelines as far as was
    said of it. One of which every part is idle is not waited for.
    """
    near = {one for bound in bounds if source in bound.group.sources for one in bound.group.sources}
    documents = {one: [read_state(store, name) for name in readers.get(one, ())] for one in near}
    watermarks = {one: _reached(found) if found else _said(store, sources[one]) for one, found in documents.items()}
    idle = {one for one, found in documents.items() if found and all(_is_idle(document) for document in found)}
    return drift_or_wait(source, bounds, watermarks, idle=idle)


def _reached(documents: Iterable[PipelineDocument | None]) -> Watermark | None:
    values = [None if document is None else document.watermark for document in documents]
    known = [value for value in values if value is not None]
    return min(known) if len(known) == len(values) else None


def _said(store: Store, source: SourceSpec) -> Watermark | None:
    parts = source.parts if isinstance(source, ExternalSpec) else ()
    return advances.watermark(advances.read(store, source.name), parts)


def _is_idle(document: PipelineDocument | None) -> bool:
    if document is None or document.tracker is None or not document.tracker.parts:
        return False
    return all(part.idle for part in document.tracker.parts.values())
