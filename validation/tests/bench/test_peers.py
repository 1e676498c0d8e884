"""Peers: the child's protocol, one that is missing, and what every contestant is compared with."""

from __future__ import annotations

import numpy as np
import pytest

from tq_core.errors import BackendError
from tq_core.show.lines import LineProcess
from validation.bench.ours import Entry, plain_attention
from validation.bench.peers import client
from validation.bench.peers.data import Work
from validation.bench.peers.install import unpack
from validation.bench.plan import SHAPES, Cell
from validation.bench.world import SEED, World, draw, page_layout

CELL = Cell(SHAPES["smollm2"], 256, 1, "warm")


@pytest.fixture(scope="module")
def numpy_peer():
    peer = client.Peer("dense", 1)
    yield peer
    peer.close()


def test_numpy_peer_does_the_work_and_is_right(numpy_peer) -> None:
    assert "numpy" in numpy_peer.versions
    (entry,) = client.prepare(numpy_peer, CELL, 1 << 20, ())
    assert isinstance(entry, Entry)
    assert entry.payload_bytes == 256 * 3 * 64 * 8 and entry.facts["layers"] == 1
    assert float(entry.facts["checked"].split()[2]) < 1e-5
    assert entry.contestant.sample(3) > 0


def test_cold_peers_rotate(numpy_peer) -> None:
    cold = Cell(CELL.shape, CELL.tokens, 1, "cold")
    (entry,) = client.prepare(numpy_peer, cold, 1 << 20, ())
    assert entry.facts["layers"] == 3  # 1 MiB in layers of 384 KiB


def test_a_request_that_fails_is_an_error_and_the_child_lives(numpy_peer) -> None:
    with pytest.raises(BackendError, match="KeyError"):
        numpy_peer.ask({"op": "sample", "name": "nobody", "calls": 1})
    assert numpy_peer.alive


def test_a_missing_library_is_named(monkeypatch) -> None:
    monkeypatch.setitem(client.LIBRARIES, "no_such_peer", "nosuchpeer")
    with pytest.raises(BackendError, match="nosuchpeer: ModuleNotFoundError"):
        client.Peer("no_such_peer", 1)


def test_a_child_that_cannot_start_or_ends_is_named() -> None:
    with pytest.raises(BackendError, match="ghost: cannot be started"):
        LineProcess("ghost", ["/nonexistent/program"])
    child = LineProcess("mute", ["true"])
    with pytest.raises(BackendError, match="mute: expected an answer"):
        child.ask({"op": "hello"})
    with pytest.raises(BackendError, match="mute: the child was ended"):
        child.ask({"op": "hello"})


def test_peers_are_asked_for_the_vectors_that_ours_get() -> None:
    """The child draws its own vectors; ours and its must be the same ones."""
    work = Work.of(client.request_for("x", CELL, 0))
    queries, keys, values = draw(CELL.shape, CELL.tokens)
    assert work.seed == SEED
    np.testing.assert_array_equal(work.queries, queries)
    np.testing.assert_array_equal(work.keys, keys.swapaxes(0, 1))
    np.testing.assert_array_equal(work.values, values.swapaxes(0, 1))
    layout = page_layout(CELL.shape)
    world = World(
        CELL.shape, CELL.tokens, layout, np.zeros(0, np.uint8), np.zeros((1, 2), np.uint32), queries
    )
    np.testing.assert_allclose(work.expected, plain_attention(world), atol=1e-5)


def test_old_blas_settings_do_not_reach_the_peers(monkeypatch) -> None:
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Haswell")
    made = client.environment(2)
    assert "OPENBLAS_CORETYPE" not in made and made["OMP_NUM_THREADS"] == "2"


def test_unpacking_takes_ggml_and_nothing_else(tmp_path) -> None:
    import io
    import tarfile

    archive = tmp_path / "source.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        for name in (
            "p-1/vendor/llama.cpp/ggml/a.c",
            "p-1/setup.py",
            "p-1/vendor/llama.cpp/ggml/../../../../evil",
        ):
            member = tarfile.TarInfo(name)
            member.size = 2
            tar.addfile(member, io.BytesIO(b"ok"))
    unpack(archive, tmp_path / "out")
    assert [str(p.relative_to(tmp_path / "out")) for p in (tmp_path / "out").rglob("*") if p.is_file()] == [
        "vendor/llama.cpp/ggml/a.c"
    ]
    assert not (tmp_path / "evil").exists()
