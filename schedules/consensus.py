"""The `consensus` objective: the most contraction of consensus distance per second.

A round replaces each clique's parameters by their mean: x -> W x with the averaging matrix W of its
partition, an orthogonal projection. The consensus distance is |x - mean|^2 / n, and a round removes
x'(I - W)x / n of it. A rotation that runs round P y_P times a second, in shuffled order, removes at
least the share

    gap(y) = smallest eigenvalue of Sum y_P (I - W_P) on vectors of zero mean

of the distance per second: the spectral gap of its averaging matrices (Boyd, Ghosh, Prabhakar and
Shah, "Randomized gossip algorithms", IEEE Trans. Inf. Theory 52, 2006). A full clique removes all
of it, so its gap is one per round; a grid of rows and columns has gap one per cycle as well.

Maximizing the gap is a small semidefinite program. Its dual is a matrix Z that weighs directions of
disagreement; a clique's score is what it removes of them.
"""

from __future__ import annotations

import clarabel
import numpy as np
from scipy import sparse

from schedules.network import FloatArray
from schedules.partitions import MaskArray, cliques, sizes
from schedules.rotation import Priced, best_rotation
from schedules.rounds import TOLERANCE, RoundSet
from schedules.solution import CONSENSUS_OBJECTIVE, Solution
from schedules.watch import Watch

LEAST_SHARE = 1e-6


def fastest_consensus(rounds: RoundSet, watch: Watch) -> Solution | None:
    """Return the rotation of largest spectral gap per second; None when none is above zero."""
    size = rounds.model.network.size
    known: dict[bytes, FloatArray] = {}

    def master(masks: list[MaskArray], seconds: FloatArray) -> Priced:
        for row in masks:
            if row.tobytes() not in known:
                known[row.tobytes()] = removal(cliques(row), size)
        removals = np.array([known[row.tobytes()] for row in masks])
        apart = _never_removed(removals)
        if apart is not None:
            return Priced(0.0, np.ones(len(masks)) / seconds.sum(), removal_scores(apart))
        rates, weight = widest_gap(removals, seconds)
        value = spectral_gap(removals, rates)
        return Priced(value, rates, removal_scores(weight))

    rotation = best_rotation(rounds, CONSENSUS_OBJECTIVE, master, watch)
    if rotation is None or rotation.value <= TOLERANCE:
        return None
    rates = np.array(rotation.rates)
    used = np.flatnonzero(rates > LEAST_SHARE * rates.sum()).tolist()
    shares = tuple((rates[used] / rates[used].sum()).tolist())
    chosen = tuple(rounds.chosen(rotation.rows[n]) for n in used)
    return Solution(CONSENSUS_OBJECTIVE, chosen, shares, rotation.value, rotation.bound)


def removal(found: list[tuple[int, ...]], size: int) -> FloatArray:
    """Return (N, N) I - W of a partition: what of a disagreement its averaging removes."""
    removed = np.zeros((size, size))
    for clique in found:
        removed[np.ix_(clique, clique)] = np.eye(len(clique)) - 1 / len(clique)
    return removed


def zero_mean_basis(size: int) -> FloatArray:
    """Return (N, N-1) orthonormal vectors that span those of zero mean."""
    vectors = np.linalg.qr(np.hstack([np.ones((size, 1)), np.eye(size)[:, : size - 1]]))[0]
    return np.asarray(vectors[:, 1:], dtype=np.float64)


def spectral_gap(removals: FloatArray, rates: FloatArray) -> float:
    """Return the smallest eigenvalue of the weighed removals on vectors of zero mean."""
    basis = zero_mean_basis(removals.shape[1])
    together = np.tensordot(rates, removals, axes=1)
    return float(np.linalg.eigvalsh(basis.T @ together @ basis)[0])


def _never_removed(removals: FloatArray) -> FloatArray | None:
    """Return the weight of a disagreement that none of the rounds removes, None when all are.

    Where cliques leave islands apart no gap is above zero, and the program below has no interior.
    """
    basis = zero_mean_basis(removals.shape[1])
    values, vectors = np.linalg.eigh(basis.T @ removals.sum(axis=0) @ basis)
    if values[0] > TOLERANCE:
        return None
    disagreement = basis @ vectors[:, 0]
    return np.asarray(np.outer(disagreement, disagreement), dtype=np.float64)


def widest_gap(removals: FloatArray, seconds: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Solve the semidefinite program for some rounds.

    Args:
        removals: (rounds, N, N) I - W of each.
        seconds: (rounds,) time of each.

    Returns:
        Rounds a second of each round, scaled so that they take exactly the time there is, and the
        dual's (N, N) positive semidefinite weight of trace one.
    """
    count, size = len(removals), removals.shape[1]
    scale = float(seconds.min())
    basis = zero_mean_basis(size)
    rows, columns = np.triu_indices(size - 1)
    order = np.lexsort((rows, columns))
    rows, columns = rows[order], columns[order]
    stretch = np.where(rows == columns, 1.0, np.sqrt(2.0))
    packed = np.array([(basis.T @ r @ basis)[rows, columns] * stretch for r in removals])
    identity = np.eye(size - 1)[rows, columns]
    matrix = np.vstack(
        [
            np.append(seconds / scale, 0.0),
            np.hstack([-np.eye(count), np.zeros((count, 1))]),
            np.hstack([-packed.T, identity[:, None]]),
        ]
    )
    limits = np.concatenate([[1.0], np.zeros(count + len(rows))])
    cones = [
        clarabel.ZeroConeT(1),
        clarabel.NonnegativeConeT(count),
        clarabel.PSDTriangleConeT(size - 1),
    ]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    solution = clarabel.DefaultSolver(
        sparse.csc_matrix((count + 1, count + 1)),
        np.append(np.zeros(count), -1.0),
        sparse.csc_matrix(matrix),
        limits,
        cones,
        settings,
    ).solve()
    rates = np.maximum(np.array(solution.x[:-1]), 0.0)
    dual = np.zeros((size - 1, size - 1))
    dual[rows, columns] = np.array(solution.z[1 + count :]) / stretch
    dual = dual + np.triu(dual, 1).T
    return rates / float(rates @ seconds), _weight(basis, dual)


def _weight(basis: FloatArray, dual: FloatArray) -> FloatArray:
    """Clean a dual matrix of its rounding: no negative eigenvalue, trace one."""
    values, vectors = np.linalg.eigh(dual)
    values = np.maximum(values, 0.0)
    cleaned = (vectors * (values / values.sum())) @ vectors.T
    return np.asarray(basis @ cleaned @ basis.T, dtype=np.float64)


def removal_scores(weight: FloatArray) -> FloatArray:
    """Return (2^n,) the inner product of the weight with every clique's removal."""
    size = len(weight)
    own, together = np.zeros(1 << size), np.zeros(1 << size)
    for site in range(size):
        beside = np.zeros(1 << site)
        for other in range(site):
            beside[1 << other : 2 << other] = beside[: 1 << other] + weight[site, other]
        low, high = slice(0, 1 << site), slice(1 << site, 2 << site)
        own[high] = own[low] + weight[site, site]
        together[high] = together[low] + weight[site, site] + 2 * beside
    return own - together / np.maximum(sizes(size), 1)
